# A SEND of three packets: the receive completes with the last one, the send with its
# acknowledgement, which only the last packet asks for.

0us     b post receive 7 length 4096
0us     a post send 1 length 2500
1ms     b compare inbox 0 own 0 length 2500

expect
         0.000 b1  post     receive 7 length 4096
         0.000 a1  post     send 1 length 2500
         0.000 a1  send     SEND_FIRST psn 0 bytes 1024
         0.000 a1  send     SEND_MIDDLE psn 1 bytes 1024
         0.000 a1  send     SEND_LAST psn 2 bytes 452 ack?
        10.000 b1  receive  SEND_FIRST psn 0 bytes 1024
        10.000 b1  receive  SEND_MIDDLE psn 1 bytes 1024
        10.000 b1  receive  SEND_LAST psn 2 bytes 452 ack?
        10.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        10.000 b1  complete receive wr 7 SUCCESS bytes 2500
        20.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
        20.000 a1  decide   done: psn 0 to 2
        20.000 a1  complete send wr 1 SUCCESS
      1000.000 b1  memory   inbox at 0 is the peer's own at 0, all 2500 bytes

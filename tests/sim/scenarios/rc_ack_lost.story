# The acknowledgement is lost. The peer has executed the message and does not execute the
# repeat: it acknowledges again, and its receive completes once.

0us     b lose 1
0us     b post receive 7 length 4096
0us     b post receive 8 length 4096
0us     a post send 1 length 2500
5ms     b compare inbox 0 own 0 length 2500

expect
         0.000 b1  post     receive 7 length 4096
         0.000 b1  post     receive 8 length 4096
         0.000 a1  post     send 1 length 2500
         0.000 a1  send     SEND_FIRST psn 0 bytes 1024
         0.000 a1  send     SEND_MIDDLE psn 1 bytes 1024
         0.000 a1  send     SEND_LAST psn 2 bytes 452 ack?
        10.000 b1  receive  SEND_FIRST psn 0 bytes 1024
        10.000 b1  receive  SEND_MIDDLE psn 1 bytes 1024
        10.000 b1  receive  SEND_LAST psn 2 bytes 452 ack?
        10.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        10.000 b   lost     ACKNOWLEDGE psn 2 ack msn 1
        10.000 b1  complete receive wr 7 SUCCESS bytes 2500
      2000.000 a1  deadline
      2000.000 a1  decide   probe: nothing came for a while, ask with psn 2 again
      2000.000 a1  send     SEND_LAST psn 2 bytes 452 ack?
      2010.000 b1  receive  SEND_LAST psn 2 bytes 452 ack? (drop_duplicate)
      2010.000 b1  decide   repeat of psn 2: acknowledge up to 2 again, write nothing
      2010.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
      2020.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
      2020.000 a1  decide   done: psn 0 to 2
      2020.000 a1  complete send wr 1 SUCCESS
      5000.000 b1  memory   inbox at 0 is the peer's own at 0, all 2500 bytes

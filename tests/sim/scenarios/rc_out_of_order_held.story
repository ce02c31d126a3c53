# The second of three messages takes a longer way. The third one is held, not executed
# and not dropped: receives complete in order, and the third is executed when the second comes,
# before its repeat has arrived.

0us     b post receive 7 length 100
0us     b post receive 8 length 100
0us     b post receive 9 length 100
0us     a post send 1 length 100 local 0
1us     a latency 30us
1us     a post send 2 length 100 local 100
2us     a latency 10us
2us     a post send 3 length 100 local 200
1ms     b compare inbox 0 own 0 length 300

expect
         0.000 b1  post     receive 7 length 100
         0.000 b1  post     receive 8 length 100
         0.000 b1  post     receive 9 length 100
         0.000 a1  post     send 1 length 100 local 0
         0.000 a1  send     SEND_ONLY psn 0 bytes 100 ack?
         1.000 a1  link     takes 30us now
         1.000 a1  post     send 2 length 100 local 100
         1.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
         2.000 a1  link     takes 10us now
         2.000 a1  post     send 3 length 100 local 200
         2.000 a1  send     SEND_ONLY psn 2 bytes 100 ack?
        10.000 b1  receive  SEND_ONLY psn 0 bytes 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 0 ack msn 1
        10.000 b1  complete receive wr 7 SUCCESS bytes 100
        12.000 b1  receive  SEND_ONLY psn 2 bytes 100 ack?
        12.000 b1  decide   hold psn 2: psn 1 has not come
        12.000 b1  decide   NAK sequence: expected 1, got 2
        12.000 b1  send     ACKNOWLEDGE psn 1 nak (sequence) msn 1
        20.000 a1  receive  ACKNOWLEDGE psn 0 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  complete send wr 1 SUCCESS
        22.000 a1  receive  ACKNOWLEDGE psn 1 nak (sequence) msn 1
        22.000 a1  decide   go back to psn 1: the peer misses it
        22.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
        22.000 a1  send     SEND_ONLY psn 2 bytes 100 ack?
        31.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack?
        31.000 b1  decide   execute what was held: psn 2
        31.000 b1  send     ACKNOWLEDGE psn 2 ack msn 3
        31.000 b1  complete receive wr 8 SUCCESS bytes 100
        31.000 b1  complete receive wr 9 SUCCESS bytes 100
        32.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
        32.000 b1  decide   repeat of psn 1: acknowledge up to 2 again, write nothing
        32.000 b1  send     ACKNOWLEDGE psn 2 ack msn 3
        32.000 b1  receive  SEND_ONLY psn 2 bytes 100 ack? (drop_duplicate)
        32.000 b1  decide   repeat of psn 2: acknowledge up to 2 again, write nothing
        32.000 b1  send     ACKNOWLEDGE psn 2 ack msn 3
        41.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 3
        41.000 a1  decide   done: psn 1 to 2
        41.000 a1  complete send wr 2 SUCCESS
        41.000 a1  complete send wr 3 SUCCESS
        42.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 3
        42.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 3
      1000.000 b1  memory   inbox at 0 is the peer's own at 0, all 300 bytes

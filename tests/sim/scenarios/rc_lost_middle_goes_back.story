# The third of five packets is lost. What comes behind the gap is held and told of by one
# NAK, not by one for each packet; the requester goes back to the missing packet,
# and the repeats that follow it change nothing.

0us     a lose 3
0us     a post write 1 length 5000
1ms     b compare open 0 own 0 length 5000

expect
         0.000 a1  post     write 1 length 5000
         0.000 a1  send     WRITE_FIRST psn 0 bytes 1024 length 5000
         0.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
         0.000 a1  send     WRITE_MIDDLE psn 2 bytes 1024
         0.000 a   lost     WRITE_MIDDLE psn 2 bytes 1024
         0.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
         0.000 a1  send     WRITE_LAST psn 4 bytes 904 ack?
        10.000 b1  receive  WRITE_FIRST psn 0 bytes 1024 length 5000
        10.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024
        10.000 b1  receive  WRITE_MIDDLE psn 3 bytes 1024
        10.000 b1  decide   hold psn 3: psn 2 has not come
        10.000 b1  decide   NAK sequence: expected 2, got 3
        10.000 b1  send     ACKNOWLEDGE psn 2 nak (sequence) msn 0
        10.000 b1  receive  WRITE_LAST psn 4 bytes 904 ack?
        10.000 b1  decide   hold psn 4: psn 2 has not come
        10.000 b1  decide   no second NAK for psn 2 in this wave
        20.000 a1  receive  ACKNOWLEDGE psn 2 nak (sequence) msn 0
        20.000 a1  decide   done: psn 0 to 1
        20.000 a1  decide   go back to psn 2: the peer misses it
        20.000 a1  send     WRITE_MIDDLE psn 2 bytes 1024
        20.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
        20.000 a1  send     WRITE_LAST psn 4 bytes 904 ack?
        30.000 b1  receive  WRITE_MIDDLE psn 2 bytes 1024
        30.000 b1  decide   execute what was held: psn 3 to 4
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        30.000 b1  receive  WRITE_MIDDLE psn 3 bytes 1024 (drop_duplicate)
        30.000 b1  decide   repeat of psn 3: acknowledge up to 4 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        30.000 b1  receive  WRITE_LAST psn 4 bytes 904 ack? (drop_duplicate)
        30.000 b1  decide   repeat of psn 4: acknowledge up to 4 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  decide   done: psn 2 to 4
        40.000 a1  complete write wr 1 SUCCESS
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
      1000.000 b1  memory   open at 0 is the peer's own at 0, all 5000 bytes

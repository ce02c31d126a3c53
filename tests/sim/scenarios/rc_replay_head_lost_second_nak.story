# The repeat of a lost packet is lost as well. The peer was told once; PSNs that run
# backwards show a new wave that lost its head, so it is told again and nobody waits for a timer.
# A round trip has been measured before: a NAK that comes sooner than that would be an echo.

0us     a post write 1 length 100
100us   a lose 4 7
100us   a post write 2 length 5000
1ms     b compare open 0 own 0 length 5000

expect
         0.000 a1  post     write 1 length 100
         0.000 a1  send     WRITE_ONLY psn 0 bytes 100 length 100 ack?
        10.000 b1  receive  WRITE_ONLY psn 0 bytes 100 length 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 0 ack msn 1
        20.000 a1  receive  ACKNOWLEDGE psn 0 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  complete write wr 1 SUCCESS
       100.000 a1  post     write 2 length 5000
       100.000 a1  send     WRITE_FIRST psn 1 bytes 1024 length 5000
       100.000 a1  send     WRITE_MIDDLE psn 2 bytes 1024
       100.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
       100.000 a   lost     WRITE_MIDDLE psn 3 bytes 1024
       100.000 a1  send     WRITE_MIDDLE psn 4 bytes 1024
       100.000 a1  send     WRITE_LAST psn 5 bytes 904 ack?
       110.000 b1  receive  WRITE_FIRST psn 1 bytes 1024 length 5000
       110.000 b1  receive  WRITE_MIDDLE psn 2 bytes 1024
       110.000 b1  receive  WRITE_MIDDLE psn 4 bytes 1024
       110.000 b1  decide   hold psn 4: psn 3 has not come
       110.000 b1  decide   NAK sequence: expected 3, got 4
       110.000 b1  send     ACKNOWLEDGE psn 3 nak (sequence) msn 1
       110.000 b1  receive  WRITE_LAST psn 5 bytes 904 ack?
       110.000 b1  decide   hold psn 5: psn 3 has not come
       110.000 b1  decide   no second NAK for psn 3 in this wave
       120.000 a1  receive  ACKNOWLEDGE psn 3 nak (sequence) msn 1
       120.000 a1  decide   done: psn 1 to 2
       120.000 a1  decide   go back to psn 3: the peer misses it
       120.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
       120.000 a   lost     WRITE_MIDDLE psn 3 bytes 1024
       120.000 a1  send     WRITE_MIDDLE psn 4 bytes 1024
       120.000 a1  send     WRITE_LAST psn 5 bytes 904 ack?
       130.000 b1  receive  WRITE_MIDDLE psn 4 bytes 1024 (drop_duplicate)
       130.000 b1  decide   NAK sequence: expected 3, got 4, a new wave without its head
       130.000 b1  send     ACKNOWLEDGE psn 3 nak (sequence) msn 1
       130.000 b1  receive  WRITE_LAST psn 5 bytes 904 ack? (drop_duplicate)
       130.000 b1  decide   no second NAK for psn 3 in this wave
       140.000 a1  receive  ACKNOWLEDGE psn 3 nak (sequence) msn 1
       140.000 a1  decide   go back to psn 3: the peer misses it
       140.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
       140.000 a1  send     WRITE_MIDDLE psn 4 bytes 1024
       140.000 a1  send     WRITE_LAST psn 5 bytes 904 ack?
       150.000 b1  receive  WRITE_MIDDLE psn 3 bytes 1024
       150.000 b1  decide   execute what was held: psn 4 to 5
       150.000 b1  send     ACKNOWLEDGE psn 5 ack msn 2
       150.000 b1  receive  WRITE_MIDDLE psn 4 bytes 1024 (drop_duplicate)
       150.000 b1  decide   repeat of psn 4: acknowledge up to 5 again, write nothing
       150.000 b1  send     ACKNOWLEDGE psn 5 ack msn 2
       150.000 b1  receive  WRITE_LAST psn 5 bytes 904 ack? (drop_duplicate)
       150.000 b1  decide   repeat of psn 5: acknowledge up to 5 again, write nothing
       150.000 b1  send     ACKNOWLEDGE psn 5 ack msn 2
       160.000 a1  receive  ACKNOWLEDGE psn 5 ack msn 2
       160.000 a1  decide   done: psn 3 to 5
       160.000 a1  complete write wr 2 SUCCESS
       160.000 a1  receive  ACKNOWLEDGE psn 5 ack msn 2
       160.000 a1  receive  ACKNOWLEDGE psn 5 ack msn 2
      1000.000 b1  memory   open at 0 is the peer's own at 0, all 5000 bytes

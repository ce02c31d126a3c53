# PSNs have 24 bits. Behind 16777215 comes 0, also when a gap and a step back span it.

psn 16777214

0us     a lose 2
0us     a post write 1 length 5000
1ms     b compare open 0 own 0 length 5000

expect
         0.000 a1  post     write 1 length 5000
         0.000 a1  send     WRITE_FIRST psn 16777214 bytes 1024 length 5000
         0.000 a1  send     WRITE_MIDDLE psn 16777215 bytes 1024
         0.000 a   lost     WRITE_MIDDLE psn 16777215 bytes 1024
         0.000 a1  send     WRITE_MIDDLE psn 0 bytes 1024
         0.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
         0.000 a1  send     WRITE_LAST psn 2 bytes 904 ack?
        10.000 b1  receive  WRITE_FIRST psn 16777214 bytes 1024 length 5000
        10.000 b1  receive  WRITE_MIDDLE psn 0 bytes 1024
        10.000 b1  decide   hold psn 0: psn 16777215 has not come
        10.000 b1  decide   NAK sequence: expected 16777215, got 0
        10.000 b1  send     ACKNOWLEDGE psn 16777215 nak (sequence) msn 0
        10.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024
        10.000 b1  decide   hold psn 1: psn 16777215 has not come
        10.000 b1  decide   no second NAK for psn 16777215 in this wave
        10.000 b1  receive  WRITE_LAST psn 2 bytes 904 ack?
        10.000 b1  decide   hold psn 2: psn 16777215 has not come
        10.000 b1  decide   no second NAK for psn 16777215 in this wave
        20.000 a1  receive  ACKNOWLEDGE psn 16777215 nak (sequence) msn 0
        20.000 a1  decide   done: psn 16777214
        20.000 a1  decide   go back to psn 16777215: the peer misses it
        20.000 a1  send     WRITE_MIDDLE psn 16777215 bytes 1024
        20.000 a1  send     WRITE_MIDDLE psn 0 bytes 1024
        20.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
        20.000 a1  send     WRITE_LAST psn 2 bytes 904 ack?
        30.000 b1  receive  WRITE_MIDDLE psn 16777215 bytes 1024
        30.000 b1  decide   execute what was held: psn 0 to 2
        30.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        30.000 b1  receive  WRITE_MIDDLE psn 0 bytes 1024 (drop_duplicate)
        30.000 b1  decide   repeat of psn 0: acknowledge up to 2 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        30.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024 (drop_duplicate)
        30.000 b1  decide   repeat of psn 1: acknowledge up to 2 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        30.000 b1  receive  WRITE_LAST psn 2 bytes 904 ack? (drop_duplicate)
        30.000 b1  decide   repeat of psn 2: acknowledge up to 2 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
        40.000 a1  decide   done: psn 16777215 to 2
        40.000 a1  complete write wr 1 SUCCESS
        40.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
      1000.000 b1  memory   open at 0 is the peer's own at 0, all 5000 bytes

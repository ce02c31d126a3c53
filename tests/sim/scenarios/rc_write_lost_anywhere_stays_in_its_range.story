# Three WRITEs of five packets each; the first loses its first packet, the second one in the middle, the
# third its last. What is sent again goes where it belongs: the words before, between and behind
# the three ranges stay as they were.

0us     b put open 0 101
0us     b put open 5000 102
0us     b put open 10000 103
0us     b put open 15000 104
0us     a lose 1 13 23
0us     a post write 1 length 4992 remote 8
5ms     a post write 2 length 4992 local 4992 remote 5008
10ms    a post write 3 length 4984 local 9984 remote 10008
20ms    b compare open 8 own 0 length 4992
20ms    b compare open 5008 own 4992 length 4992
20ms    b compare open 10008 own 9984 length 4984
20ms    b show open 0
20ms    b show open 5000
20ms    b show open 10000
20ms    b show open 15000

expect
         0.000 b1  memory   open at 0 is set to 101
         0.000 b1  memory   open at 5000 is set to 102
         0.000 b1  memory   open at 10000 is set to 103
         0.000 b1  memory   open at 15000 is set to 104
         0.000 a1  post     write 1 length 4992 remote 8
         0.000 a1  send     WRITE_FIRST psn 0 bytes 1024 length 4992
         0.000 a   lost     WRITE_FIRST psn 0 bytes 1024 length 4992
         0.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
         0.000 a1  send     WRITE_MIDDLE psn 2 bytes 1024
         0.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
         0.000 a1  send     WRITE_LAST psn 4 bytes 896 ack?
        10.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024
        10.000 b1  decide   hold psn 1: psn 0 has not come
        10.000 b1  decide   NAK sequence: expected 0, got 1
        10.000 b1  send     ACKNOWLEDGE psn 0 nak (sequence) msn 0
        10.000 b1  receive  WRITE_MIDDLE psn 2 bytes 1024
        10.000 b1  decide   hold psn 2: psn 0 has not come
        10.000 b1  decide   no second NAK for psn 0 in this wave
        10.000 b1  receive  WRITE_MIDDLE psn 3 bytes 1024
        10.000 b1  decide   hold psn 3: psn 0 has not come
        10.000 b1  decide   no second NAK for psn 0 in this wave
        10.000 b1  receive  WRITE_LAST psn 4 bytes 896 ack?
        10.000 b1  decide   hold psn 4: psn 0 has not come
        10.000 b1  decide   no second NAK for psn 0 in this wave
        20.000 a1  receive  ACKNOWLEDGE psn 0 nak (sequence) msn 0
        20.000 a1  decide   go back to psn 0: the peer misses it
        20.000 a1  send     WRITE_FIRST psn 0 bytes 1024 length 4992
        20.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
        20.000 a1  send     WRITE_MIDDLE psn 2 bytes 1024
        20.000 a1  send     WRITE_MIDDLE psn 3 bytes 1024
        20.000 a1  send     WRITE_LAST psn 4 bytes 896 ack?
        30.000 b1  receive  WRITE_FIRST psn 0 bytes 1024 length 4992
        30.000 b1  decide   execute what was held: psn 1 to 4
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        30.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024 (drop_duplicate)
        30.000 b1  decide   repeat of psn 1: acknowledge up to 4 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        30.000 b1  receive  WRITE_MIDDLE psn 2 bytes 1024 (drop_duplicate)
        30.000 b1  decide   repeat of psn 2: acknowledge up to 4 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        30.000 b1  receive  WRITE_MIDDLE psn 3 bytes 1024 (drop_duplicate)
        30.000 b1  decide   repeat of psn 3: acknowledge up to 4 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        30.000 b1  receive  WRITE_LAST psn 4 bytes 896 ack? (drop_duplicate)
        30.000 b1  decide   repeat of psn 4: acknowledge up to 4 again, write nothing
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  decide   done: psn 0 to 4
        40.000 a1  complete write wr 1 SUCCESS
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 1
      5000.000 a1  post     write 2 length 4992 local 4992 remote 5008
      5000.000 a1  send     WRITE_FIRST psn 5 bytes 1024 length 4992
      5000.000 a1  send     WRITE_MIDDLE psn 6 bytes 1024
      5000.000 a1  send     WRITE_MIDDLE psn 7 bytes 1024
      5000.000 a   lost     WRITE_MIDDLE psn 7 bytes 1024
      5000.000 a1  send     WRITE_MIDDLE psn 8 bytes 1024
      5000.000 a1  send     WRITE_LAST psn 9 bytes 896 ack?
      5010.000 b1  receive  WRITE_FIRST psn 5 bytes 1024 length 4992
      5010.000 b1  receive  WRITE_MIDDLE psn 6 bytes 1024
      5010.000 b1  receive  WRITE_MIDDLE psn 8 bytes 1024
      5010.000 b1  decide   hold psn 8: psn 7 has not come
      5010.000 b1  decide   NAK sequence: expected 7, got 8
      5010.000 b1  send     ACKNOWLEDGE psn 7 nak (sequence) msn 1
      5010.000 b1  receive  WRITE_LAST psn 9 bytes 896 ack?
      5010.000 b1  decide   hold psn 9: psn 7 has not come
      5010.000 b1  decide   no second NAK for psn 7 in this wave
      5020.000 a1  receive  ACKNOWLEDGE psn 7 nak (sequence) msn 1
      5020.000 a1  decide   done: psn 5 to 6
      5020.000 a1  decide   go back to psn 7: the peer misses it
      5020.000 a1  send     WRITE_MIDDLE psn 7 bytes 1024
      5020.000 a1  send     WRITE_MIDDLE psn 8 bytes 1024
      5020.000 a1  send     WRITE_LAST psn 9 bytes 896 ack?
      5030.000 b1  receive  WRITE_MIDDLE psn 7 bytes 1024
      5030.000 b1  decide   execute what was held: psn 8 to 9
      5030.000 b1  send     ACKNOWLEDGE psn 9 ack msn 2
      5030.000 b1  receive  WRITE_MIDDLE psn 8 bytes 1024 (drop_duplicate)
      5030.000 b1  decide   repeat of psn 8: acknowledge up to 9 again, write nothing
      5030.000 b1  send     ACKNOWLEDGE psn 9 ack msn 2
      5030.000 b1  receive  WRITE_LAST psn 9 bytes 896 ack? (drop_duplicate)
      5030.000 b1  decide   repeat of psn 9: acknowledge up to 9 again, write nothing
      5030.000 b1  send     ACKNOWLEDGE psn 9 ack msn 2
      5040.000 a1  receive  ACKNOWLEDGE psn 9 ack msn 2
      5040.000 a1  decide   done: psn 7 to 9
      5040.000 a1  complete write wr 2 SUCCESS
      5040.000 a1  receive  ACKNOWLEDGE psn 9 ack msn 2
      5040.000 a1  receive  ACKNOWLEDGE psn 9 ack msn 2
     10000.000 a1  post     write 3 length 4984 local 9984 remote 10008
     10000.000 a1  send     WRITE_FIRST psn 10 bytes 1024 length 4984
     10000.000 a1  send     WRITE_MIDDLE psn 11 bytes 1024
     10000.000 a1  send     WRITE_MIDDLE psn 12 bytes 1024
     10000.000 a1  send     WRITE_MIDDLE psn 13 bytes 1024
     10000.000 a1  send     WRITE_LAST psn 14 bytes 888 ack?
     10000.000 a   lost     WRITE_LAST psn 14 bytes 888 ack?
     10010.000 b1  receive  WRITE_FIRST psn 10 bytes 1024 length 4984
     10010.000 b1  receive  WRITE_MIDDLE psn 11 bytes 1024
     10010.000 b1  receive  WRITE_MIDDLE psn 12 bytes 1024
     10010.000 b1  receive  WRITE_MIDDLE psn 13 bytes 1024
     12000.000 a1  deadline
     12000.000 a1  decide   probe: nothing came for a while, ask with psn 14 again
     12000.000 a1  send     WRITE_LAST psn 14 bytes 888 ack?
     12010.000 b1  receive  WRITE_LAST psn 14 bytes 888 ack?
     12010.000 b1  send     ACKNOWLEDGE psn 14 ack msn 3
     12020.000 a1  receive  ACKNOWLEDGE psn 14 ack msn 3
     12020.000 a1  decide   done: psn 10 to 14
     12020.000 a1  complete write wr 3 SUCCESS
     20000.000 b1  memory   open at 8 is the peer's own at 0, all 4992 bytes
     20000.000 b1  memory   open at 5008 is the peer's own at 4992, all 4992 bytes
     20000.000 b1  memory   open at 10008 is the peer's own at 9984, all 4984 bytes
     20000.000 b1  memory   open at 0 is 101
     20000.000 b1  memory   open at 5000 is 102
     20000.000 b1  memory   open at 10000 is 103
     20000.000 b1  memory   open at 15000 is 104

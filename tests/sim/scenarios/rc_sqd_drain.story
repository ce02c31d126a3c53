# SQD: what was begun is finished, what is posted meanwhile waits. When all is acknowledged
# the program hears SQ_DRAINED; back in RTS the rest is sent.

0us     a post write 1 length 3000
5us     a state SQD
6us     a post write 2 length 100
1ms     a state RTS

expect
         0.000 a1  post     write 1 length 3000
         0.000 a1  send     WRITE_FIRST psn 0 bytes 1024 length 3000
         0.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
         0.000 a1  send     WRITE_LAST psn 2 bytes 952 ack?
         5.000 a1  state    SQD
         6.000 a1  post     write 2 length 100
         6.000 a1  decide   wr 2 waits: the send queue drains
        10.000 b1  receive  WRITE_FIRST psn 0 bytes 1024 length 3000
        10.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024
        10.000 b1  receive  WRITE_LAST psn 2 bytes 952 ack?
        10.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        20.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
        20.000 a1  decide   done: psn 0 to 2
        20.000 a1  complete write wr 1 SUCCESS
        20.000 a1  event    SQ_DRAINED
      1000.000 a1  state    RTS
      1000.000 a1  send     WRITE_ONLY psn 3 bytes 100 length 100 ack?
      1010.000 b1  receive  WRITE_ONLY psn 3 bytes 100 length 100 ack?
      1010.000 b1  send     ACKNOWLEDGE psn 3 ack msn 2
      1020.000 a1  receive  ACKNOWLEDGE psn 3 ack msn 2
      1020.000 a1  decide   done: psn 3
      1020.000 a1  complete write wr 2 SUCCESS

# A fenced request starts when all READs and atomics before it have their answers.
# The WRITE behind the READ has no fence and does not wait; the one behind the fenced SEND
# keeps its place. The SEND carries what the READ has fetched.

0us     b post receive 7 length 2048
0us     a post read 1 length 2048 more
0us     a post write 2 length 100 local 4096 remote 4096 more
0us     a post send 3 length 2048 fence more
0us     a post write 4 length 100 local 4096 remote 4096
1ms     a compare own 0 open 0 length 2048
1ms     b compare inbox 0 own 0 length 2048

expect
         0.000 b1  post     receive 7 length 2048
         0.000 a1  post     read 1 length 2048 more
         0.000 a1  post     write 2 length 100 local 4096 remote 4096 more
         0.000 a1  post     send 3 length 2048 fence more
         0.000 a1  post     write 4 length 100 local 4096 remote 4096
         0.000 a1  send     READ_REQUEST psn 0 length 2048 ack?
         0.000 a1  send     WRITE_ONLY psn 2 bytes 100 length 100 ack?
         0.000 a1  decide   wr 3 waits: it is fenced, an answer before it is due
        10.000 b1  receive  READ_REQUEST psn 0 length 2048 ack?
        10.000 b1  send     READ_RESPONSE_FIRST psn 0 bytes 1024 ack msn 1
        10.000 b1  send     READ_RESPONSE_LAST psn 1 bytes 1024 ack msn 1
        10.000 b1  receive  WRITE_ONLY psn 2 bytes 100 length 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 2 ack msn 2
        20.000 a1  receive  READ_RESPONSE_FIRST psn 0 bytes 1024 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  receive  READ_RESPONSE_LAST psn 1 bytes 1024 ack msn 1
        20.000 a1  decide   done: psn 1
        20.000 a1  send     SEND_FIRST psn 3 bytes 1024
        20.000 a1  send     SEND_LAST psn 4 bytes 1024 ack?
        20.000 a1  send     WRITE_ONLY psn 5 bytes 100 length 100 ack?
        20.000 a1  complete read wr 1 SUCCESS bytes 2048
        20.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 2
        20.000 a1  decide   done: psn 2
        20.000 a1  complete write wr 2 SUCCESS
        30.000 b1  receive  SEND_FIRST psn 3 bytes 1024
        30.000 b1  receive  SEND_LAST psn 4 bytes 1024 ack?
        30.000 b1  send     ACKNOWLEDGE psn 4 ack msn 3
        30.000 b1  complete receive wr 7 SUCCESS bytes 2048
        30.000 b1  receive  WRITE_ONLY psn 5 bytes 100 length 100 ack?
        30.000 b1  send     ACKNOWLEDGE psn 5 ack msn 4
        40.000 a1  receive  ACKNOWLEDGE psn 4 ack msn 3
        40.000 a1  decide   done: psn 3 to 4
        40.000 a1  complete send wr 3 SUCCESS
        40.000 a1  receive  ACKNOWLEDGE psn 5 ack msn 4
        40.000 a1  decide   done: psn 5
        40.000 a1  complete write wr 4 SUCCESS
      1000.000 a1  memory   own at 0 is the peer's open at 0, all 2048 bytes
      1000.000 b1  memory   inbox at 0 is the peer's own at 0, all 2048 bytes

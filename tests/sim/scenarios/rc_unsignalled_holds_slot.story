# A request that asks for no completion holds its place in the queue until a later one that
# does has been polled, although it is long done.

queue 2

0us     a post write 1 length 100 unsignalled
1ms     a post write 2 length 100
2ms     a post write 3 length 100
3ms     a poll
3ms     a post write 4 length 100
3ms     a post write 5 length 100

expect
         0.000 a1  post     write 1 length 100 unsignalled
         0.000 a1  send     WRITE_ONLY psn 0 bytes 100 length 100 ack?
        10.000 b1  receive  WRITE_ONLY psn 0 bytes 100 length 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 0 ack msn 1
        20.000 a1  receive  ACKNOWLEDGE psn 0 ack msn 1
        20.000 a1  decide   done: psn 0
      1000.000 a1  post     write 2 length 100
      1000.000 a1  send     WRITE_ONLY psn 1 bytes 100 length 100 ack?
      1010.000 b1  receive  WRITE_ONLY psn 1 bytes 100 length 100 ack?
      1010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
      1020.000 a1  receive  ACKNOWLEDGE psn 1 ack msn 2
      1020.000 a1  decide   done: psn 1
      1020.000 a1  complete write wr 2 SUCCESS
      2000.000 a1  post     write 3 length 100: ENOMEM, the queue is full
      3000.000 a1  poll     wr 2
      3000.000 a1  post     write 4 length 100
      3000.000 a1  send     WRITE_ONLY psn 2 bytes 100 length 100 ack?
      3000.000 a1  post     write 5 length 100
      3000.000 a1  send     WRITE_ONLY psn 3 bytes 100 length 100 ack?
      3010.000 b1  receive  WRITE_ONLY psn 2 bytes 100 length 100 ack?
      3010.000 b1  send     ACKNOWLEDGE psn 2 ack msn 3
      3010.000 b1  receive  WRITE_ONLY psn 3 bytes 100 length 100 ack?
      3010.000 b1  send     ACKNOWLEDGE psn 3 ack msn 4
      3020.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 3
      3020.000 a1  decide   done: psn 2
      3020.000 a1  complete write wr 4 SUCCESS
      3020.000 a1  receive  ACKNOWLEDGE psn 3 ack msn 4
      3020.000 a1  decide   done: psn 3
      3020.000 a1  complete write wr 5 SUCCESS

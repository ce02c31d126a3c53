# A WRITE with immediate takes its receive with the packet that bears the immediate, the
# last one (9.7.5.1.3). Without a receive only that packet is refused: the bytes before it are written.

min_rnr_timer 12

0us     a post write 1 length 2500 immediate 0x1234
15us    b compare open 0 own 0 length 2048
300us   b post receive 7 length 0
1ms     b compare open 0 own 0 length 2500

expect
         0.000 a1  post     write 1 length 2500 immediate 0x1234
         0.000 a1  send     WRITE_FIRST psn 0 bytes 1024 length 2500
         0.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
         0.000 a1  send     WRITE_LAST_IMM psn 2 bytes 452 ack?
        10.000 b1  receive  WRITE_FIRST psn 0 bytes 1024 length 2500
        10.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024
        10.000 b1  receive  WRITE_LAST_IMM psn 2 bytes 452 ack? (recv_queue_empty)
        10.000 b1  decide   RNR NAK: no receive for psn 2, come again after 640 us
        10.000 b1  send     ACKNOWLEDGE psn 2 rnr 12 msn 0
        15.000 b1  memory   open at 0 is the peer's own at 0, all 2048 bytes
        20.000 a1  receive  ACKNOWLEDGE psn 2 rnr 12 msn 0
        20.000 a1  decide   done: psn 0 to 1
        20.000 a1  decide   go back to psn 2: the peer has no receive
        20.000 a1  decide   wait 640 us, for ever if need be
       300.000 b1  post     receive 7 length 0
       660.000 a1  deadline
       660.000 a1  decide   the RNR wait is over
       660.000 a1  send     WRITE_LAST_IMM psn 2 bytes 452 ack?
       670.000 b1  receive  WRITE_LAST_IMM psn 2 bytes 452 ack?
       670.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
       670.000 b1  complete write-imm wr 7 SUCCESS bytes 2500 immediate 0x1234
       680.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1
       680.000 a1  decide   done: psn 2
       680.000 a1  complete write wr 1 SUCCESS
      1000.000 b1  memory   open at 0 is the peer's own at 0, all 2500 bytes

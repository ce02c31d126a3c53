# No receive is posted: the peer asks to wait for its min_rnr_timer (code 12 is 0.64 ms) and the
# requester tries again after that time, not before. A packet that was sent behind the refused
# one gets no answer of its own.

min_rnr_timer 12 rnr_retry 3

0us     a post send 1 length 100 more
0us     a post send 2 length 100
300us   b post receive 7 length 100
300us   b post receive 8 length 100

expect
         0.000 a1  post     send 1 length 100 more
         0.000 a1  post     send 2 length 100
         0.000 a1  send     SEND_ONLY psn 0 bytes 100 ack?
         0.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
        10.000 b1  receive  SEND_ONLY psn 0 bytes 100 ack? (recv_queue_empty)
        10.000 b1  decide   RNR NAK: no receive for psn 0, come again after 640 us
        10.000 b1  send     ACKNOWLEDGE psn 0 rnr 12 msn 0
        10.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack?
        10.000 b1  decide   hold psn 1: psn 0 has not come
        10.000 b1  decide   no second NAK for psn 0 in this wave
        20.000 a1  receive  ACKNOWLEDGE psn 0 rnr 12 msn 0
        20.000 a1  decide   go back to psn 0: the peer has no receive
        20.000 a1  decide   wait 640 us, RNR tries left: 2
       300.000 b1  post     receive 7 length 100
       300.000 b1  post     receive 8 length 100
       660.000 a1  deadline
       660.000 a1  decide   the RNR wait is over
       660.000 a1  send     SEND_ONLY psn 0 bytes 100 ack?
       660.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
       670.000 b1  receive  SEND_ONLY psn 0 bytes 100 ack?
       670.000 b1  decide   execute what was held: psn 1
       670.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
       670.000 b1  complete receive wr 7 SUCCESS bytes 100
       670.000 b1  complete receive wr 8 SUCCESS bytes 100
       670.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
       670.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
       670.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
       680.000 a1  receive  ACKNOWLEDGE psn 1 ack msn 2
       680.000 a1  decide   done: psn 0 to 1
       680.000 a1  complete send wr 1 SUCCESS
       680.000 a1  complete send wr 2 SUCCESS
       680.000 a1  receive  ACKNOWLEDGE psn 1 ack msn 2

# With rnr_retry 2 the requester comes three times in all and then gives up; the peer's
# QP has done nothing wrong and stays as it is.

min_rnr_timer 12 rnr_retry 2

0us     a post send 1 length 100 more
0us     a post send 2 length 100 unsignalled

expect
         0.000 a1  post     send 1 length 100 more
         0.000 a1  post     send 2 length 100 unsignalled
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
        20.000 a1  decide   wait 640 us, RNR tries left: 1
       660.000 a1  deadline
       660.000 a1  decide   the RNR wait is over
       660.000 a1  send     SEND_ONLY psn 0 bytes 100 ack?
       660.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
       670.000 b1  receive  SEND_ONLY psn 0 bytes 100 ack? (recv_queue_empty)
       670.000 b1  decide   RNR NAK: no receive for psn 0, come again after 640 us
       670.000 b1  send     ACKNOWLEDGE psn 0 rnr 12 msn 0
       670.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
       670.000 b1  decide   no second NAK for psn 0 in this wave
       680.000 a1  receive  ACKNOWLEDGE psn 0 rnr 12 msn 0
       680.000 a1  decide   go back to psn 0: the peer has no receive
       680.000 a1  decide   wait 640 us, RNR tries left: 0
      1320.000 a1  deadline
      1320.000 a1  decide   the RNR wait is over
      1320.000 a1  send     SEND_ONLY psn 0 bytes 100 ack?
      1320.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
      1330.000 b1  receive  SEND_ONLY psn 0 bytes 100 ack? (recv_queue_empty)
      1330.000 b1  decide   RNR NAK: no receive for psn 0, come again after 640 us
      1330.000 b1  send     ACKNOWLEDGE psn 0 rnr 12 msn 0
      1330.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
      1330.000 b1  decide   no second NAK for psn 0 in this wave
      1340.000 a1  receive  ACKNOWLEDGE psn 0 rnr 12 msn 0
      1340.000 a1  decide   ERROR: the peer had no receive posted, after all retries
      1340.000 a1  complete request wr 1 RNR_RETRY_EXC_ERR (rnr_retry_exceeded)
      1340.000 a1  complete request wr 2 WR_FLUSH_ERR (flushed)

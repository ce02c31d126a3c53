# Nothing comes back from the peer for a while. The requester asks again and does not give up; the
# peer acknowledges each repeat and executes none.

0us     b post receive 7 length 4096
0us     b post receive 8 length 4096
0us     b cut
0us     a post send 1 length 100
0us     a post send 2 length 100
200ms   b mend
2s      b compare inbox 0 own 0 length 100

expect
         0.000 b1  post     receive 7 length 4096
         0.000 b1  post     receive 8 length 4096
         0.000 b1  link     is cut
         0.000 a1  post     send 1 length 100
         0.000 a1  send     SEND_ONLY psn 0 bytes 100 ack?
         0.000 a1  post     send 2 length 100
         0.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
        10.000 b1  receive  SEND_ONLY psn 0 bytes 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 0 ack msn 1
        10.000 b   lost     ACKNOWLEDGE psn 0 ack msn 1
        10.000 b1  complete receive wr 7 SUCCESS bytes 100
        10.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
        10.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
        10.000 b1  complete receive wr 8 SUCCESS bytes 100
      2000.000 a1  deadline
      2000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
      2000.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
      2010.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
      2010.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
      2010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
      2010.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
      6000.000 a1  deadline
      6000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
      6000.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
      6010.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
      6010.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
      6010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
      6010.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
     14000.000 a1  deadline
     14000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
     14000.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
     14010.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
     14010.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
     14010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
     14010.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
     30000.000 a1  deadline
     30000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
     30000.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
     30010.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
     30010.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
     30010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
     30010.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
     62000.000 a1  deadline
     62000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
     62000.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
     62010.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
     62010.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
     62010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
     62010.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
    126000.000 a1  deadline
    126000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
    126000.000 a1  send     SEND_ONLY psn 1 bytes 100 ack?
    126010.000 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
    126010.000 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
    126010.000 b1  send     ACKNOWLEDGE psn 1 ack msn 2
    126010.000 b   lost     ACKNOWLEDGE psn 1 ack msn 2
    134217.728 a1  deadline
    134217.728 a1  decide   ACK timeout: go back to psn 0, tries left: 6
    134217.728 a1  send     SEND_ONLY psn 0 bytes 100 ack?
    134217.728 a1  send     SEND_ONLY psn 1 bytes 100 ack?
    134227.728 b1  receive  SEND_ONLY psn 0 bytes 100 ack? (drop_duplicate)
    134227.728 b1  decide   repeat of psn 0: acknowledge up to 1 again, write nothing
    134227.728 b1  send     ACKNOWLEDGE psn 1 ack msn 2
    134227.728 b   lost     ACKNOWLEDGE psn 1 ack msn 2
    134227.728 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
    134227.728 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
    134227.728 b1  send     ACKNOWLEDGE psn 1 ack msn 2
    134227.728 b   lost     ACKNOWLEDGE psn 1 ack msn 2
    200000.000 b1  link     is whole again
    262217.728 a1  deadline
    262217.728 a1  decide   probe: nothing came for a while, ask with psn 1 again
    262217.728 a1  send     SEND_ONLY psn 1 bytes 100 ack?
    262227.728 b1  receive  SEND_ONLY psn 1 bytes 100 ack? (drop_duplicate)
    262227.728 b1  decide   repeat of psn 1: acknowledge up to 1 again, write nothing
    262227.728 b1  send     ACKNOWLEDGE psn 1 ack msn 2
    262237.728 a1  receive  ACKNOWLEDGE psn 1 ack msn 2
    262237.728 a1  decide   done: psn 0 to 1
    262237.728 a1  complete send wr 1 SUCCESS
    262237.728 a1  complete send wr 2 SUCCESS
   2000000.000 b1  memory   inbox at 0 is the peer's own at 0, all 100 bytes

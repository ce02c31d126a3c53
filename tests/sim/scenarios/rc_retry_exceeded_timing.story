# Nothing comes back. Timeout code 12 is T = 16.8 ms, and each try may take from T to 4T
# (9.7.6.1.3); here it takes 2T. With retry_cnt 1 that is two times 33.6 ms. Probes use up no try.

timeout 12 retry_cnt 1

0us     a cut
0us     a post send 1 length 2000

expect
         0.000 a1  link     is cut
         0.000 a1  post     send 1 length 2000
         0.000 a1  send     SEND_FIRST psn 0 bytes 1024
         0.000 a   lost     SEND_FIRST psn 0 bytes 1024
         0.000 a1  send     SEND_LAST psn 1 bytes 976 ack?
         0.000 a   lost     SEND_LAST psn 1 bytes 976 ack?
      2000.000 a1  deadline
      2000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
      2000.000 a1  send     SEND_LAST psn 1 bytes 976 ack?
      2000.000 a   lost     SEND_LAST psn 1 bytes 976 ack?
      6000.000 a1  deadline
      6000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
      6000.000 a1  send     SEND_LAST psn 1 bytes 976 ack?
      6000.000 a   lost     SEND_LAST psn 1 bytes 976 ack?
     14000.000 a1  deadline
     14000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
     14000.000 a1  send     SEND_LAST psn 1 bytes 976 ack?
     14000.000 a   lost     SEND_LAST psn 1 bytes 976 ack?
     30000.000 a1  deadline
     30000.000 a1  decide   probe: nothing came for a while, ask with psn 1 again
     30000.000 a1  send     SEND_LAST psn 1 bytes 976 ack?
     30000.000 a   lost     SEND_LAST psn 1 bytes 976 ack?
     33554.432 a1  deadline
     33554.432 a1  decide   ACK timeout: go back to psn 0, tries left: 0
     33554.432 a1  send     SEND_FIRST psn 0 bytes 1024
     33554.432 a   lost     SEND_FIRST psn 0 bytes 1024
     33554.432 a1  send     SEND_LAST psn 1 bytes 976 ack?
     33554.432 a   lost     SEND_LAST psn 1 bytes 976 ack?
     65554.432 a1  deadline
     65554.432 a1  decide   probe: nothing came for a while, ask with psn 1 again
     65554.432 a1  send     SEND_LAST psn 1 bytes 976 ack?
     65554.432 a   lost     SEND_LAST psn 1 bytes 976 ack?
     67108.864 a1  deadline
     67108.864 a1  decide   ACK timeout, no try left
     67108.864 a1  decide   ERROR: no answer after all retries
     67108.864 a1  complete request wr 1 RETRY_EXC_ERR (retry_exceeded)

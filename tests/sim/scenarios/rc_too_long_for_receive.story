# The message is longer than the receive. At the peer that receive completes with
# LOC_LEN_ERR, which is also how its program hears of it; the NAK says invalid request.

0us     b post receive 7 length 1500
0us     b post receive 8 length 1500
0us     a post send 1 length 2000

expect
         0.000 b1  post     receive 7 length 1500
         0.000 b1  post     receive 8 length 1500
         0.000 a1  post     send 1 length 2000
         0.000 a1  send     SEND_FIRST psn 0 bytes 1024
         0.000 a1  send     SEND_LAST psn 1 bytes 976 ack?
        10.000 b1  receive  SEND_FIRST psn 0 bytes 1024
        10.000 b1  receive  SEND_LAST psn 1 bytes 976 ack? (recv_too_short)
        10.000 b1  decide   NAK invalid request: the message is longer than the posted receive buffer
        10.000 b1  decide   ERROR: the message is longer than the posted receive buffer
        10.000 b1  send     ACKNOWLEDGE psn 1 nak (invalid request) msn 0
        10.000 b1  complete receive wr 7 LOC_LEN_ERR (recv_too_short)
        10.000 b1  complete receive wr 8 WR_FLUSH_ERR (flushed)
        20.000 a1  receive  ACKNOWLEDGE psn 1 nak (invalid request) msn 0
        20.000 a1  decide   done: psn 0
        20.000 a1  decide   ERROR: the peer refused the request as invalid
        20.000 a1  complete request wr 1 REM_INV_REQ_ERR (nak_invalid_request)

# A WRITE with an rkey that names nothing: no byte is written, the NAK is a remote access
# error and both QPs end. No receive was taken, so the peer's program hears of it
# by an event; its receives are flushed. What was asked for before has succeeded.

0us     b post receive 7 length 100
0us     a post write 1 length 100 more
0us     a post write 2 length 2000 wrong_rkey remote 1000 more
0us     a post write 3 length 100 unsignalled remote 4096

expect
         0.000 b1  post     receive 7 length 100
         0.000 a1  post     write 1 length 100 more
         0.000 a1  post     write 2 length 2000 wrong_rkey remote 1000 more
         0.000 a1  post     write 3 length 100 unsignalled remote 4096
         0.000 a1  send     WRITE_ONLY psn 0 bytes 100 length 100 ack?
         0.000 a1  send     WRITE_FIRST psn 1 bytes 1024 length 2000
         0.000 a1  send     WRITE_LAST psn 2 bytes 976 ack?
         0.000 a1  send     WRITE_ONLY psn 3 bytes 100 length 100 ack?
        10.000 b1  receive  WRITE_ONLY psn 0 bytes 100 length 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 0 ack msn 1
        10.000 b1  receive  WRITE_FIRST psn 1 bytes 1024 length 2000 (key_unknown)
        10.000 b1  decide   NAK remote access: the key belongs to no registered memory region
        10.000 b1  decide   ERROR: the key belongs to no registered memory region
        10.000 b1  send     ACKNOWLEDGE psn 1 nak (remote access) msn 1
        10.000 b1  complete receive wr 7 WR_FLUSH_ERR (flushed)
        10.000 b1  event    QP_ACCESS_ERR
        10.000 b1  receive  WRITE_LAST psn 2 bytes 976 ack? (drop_qp_state)
        10.000 b1  receive  WRITE_ONLY psn 3 bytes 100 length 100 ack? (drop_qp_state)
        20.000 a1  receive  ACKNOWLEDGE psn 0 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  complete write wr 1 SUCCESS
        20.000 a1  receive  ACKNOWLEDGE psn 1 nak (remote access) msn 1
        20.000 a1  decide   ERROR: the peer refused access: rkey, range, permission or protection domain
        20.000 a1  complete request wr 2 REM_ACCESS_ERR (nak_remote_access)
        20.000 a1  complete request wr 3 WR_FLUSH_ERR (flushed)

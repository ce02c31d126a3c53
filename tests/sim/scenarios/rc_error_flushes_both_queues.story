# The program moves the QP to ERR while requests are under way. All of them, receives too,
# complete with WR_FLUSH_ERR, signalled or not, in order and once (10.3.1); so does what is posted later.
# Acknowledgements that arrive after that change nothing.

0us     a post receive 7 length 100
0us     a post receive 8 length 100
0us     a post write 1 length 3000 more
0us     a post write 2 length 100 unsignalled more
0us     a post read 3 length 100
5us     a state ERR
1ms     a post write 4 length 100
1ms     a post receive 9 length 100

expect
         0.000 a1  post     receive 7 length 100
         0.000 a1  post     receive 8 length 100
         0.000 a1  post     write 1 length 3000 more
         0.000 a1  post     write 2 length 100 unsignalled more
         0.000 a1  post     read 3 length 100
         0.000 a1  send     WRITE_FIRST psn 0 bytes 1024 length 3000
         0.000 a1  send     WRITE_MIDDLE psn 1 bytes 1024
         0.000 a1  send     WRITE_LAST psn 2 bytes 952 ack?
         0.000 a1  send     WRITE_ONLY psn 3 bytes 100 length 100 ack?
         0.000 a1  send     READ_REQUEST psn 4 length 100 ack?
         5.000 a1  state    ERR
         5.000 a1  complete request wr 1 WR_FLUSH_ERR (flushed)
         5.000 a1  complete request wr 2 WR_FLUSH_ERR (flushed)
         5.000 a1  complete request wr 3 WR_FLUSH_ERR (flushed)
         5.000 a1  complete receive wr 7 WR_FLUSH_ERR (flushed)
         5.000 a1  complete receive wr 8 WR_FLUSH_ERR (flushed)
        10.000 b1  receive  WRITE_FIRST psn 0 bytes 1024 length 3000
        10.000 b1  receive  WRITE_MIDDLE psn 1 bytes 1024
        10.000 b1  receive  WRITE_LAST psn 2 bytes 952 ack?
        10.000 b1  send     ACKNOWLEDGE psn 2 ack msn 1
        10.000 b1  receive  WRITE_ONLY psn 3 bytes 100 length 100 ack?
        10.000 b1  send     ACKNOWLEDGE psn 3 ack msn 2
        10.000 b1  receive  READ_REQUEST psn 4 length 100 ack?
        10.000 b1  send     READ_RESPONSE_ONLY psn 4 bytes 100 ack msn 3
        20.000 a1  receive  ACKNOWLEDGE psn 2 ack msn 1 (drop_qp_state)
        20.000 a1  receive  ACKNOWLEDGE psn 3 ack msn 2 (drop_qp_state)
        20.000 a1  receive  READ_RESPONSE_ONLY psn 4 bytes 100 ack msn 3 (drop_qp_state)
      1000.000 a1  post     write 4 length 100
      1000.000 a1  complete request wr 4 WR_FLUSH_ERR (flushed)
      1000.000 a1  post     receive 9 length 100
      1000.000 a1  complete receive wr 9 WR_FLUSH_ERR (flushed)

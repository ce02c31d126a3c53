# One of six answers is lost. Three later ones prove it; the READ is asked for again from
# the missing packet on. To the peer this is a repeat that is shorter than the original.

0us     b lose 3
0us     a post read 1 length 6000
1ms     a compare own 0 open 0 length 6000

expect
         0.000 a1  post     read 1 length 6000
         0.000 a1  send     READ_REQUEST psn 0 length 6000 ack?
        10.000 b1  receive  READ_REQUEST psn 0 length 6000 ack?
        10.000 b1  send     READ_RESPONSE_FIRST psn 0 bytes 1024 ack msn 1
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 1 bytes 1024
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 2 bytes 1024
        10.000 b   lost     READ_RESPONSE_MIDDLE psn 2 bytes 1024
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 3 bytes 1024
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 4 bytes 1024
        10.000 b1  send     READ_RESPONSE_LAST psn 5 bytes 880 ack msn 1
        20.000 a1  receive  READ_RESPONSE_FIRST psn 0 bytes 1024 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 1 bytes 1024
        20.000 a1  decide   done: psn 1
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 3 bytes 1024
        20.000 a1  decide   place psn 3 although psn 2 has not come
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 4 bytes 1024
        20.000 a1  decide   place psn 4 although psn 2 has not come
        20.000 a1  receive  READ_RESPONSE_LAST psn 5 bytes 880 ack msn 1
        20.000 a1  decide   place psn 5 although psn 2 has not come
        20.000 a1  decide   go back to psn 2: its answer is missing, later ones came
        20.000 a1  send     READ_REQUEST psn 2 length 3952 ack?
        30.000 b1  receive  READ_REQUEST psn 2 length 3952 ack?
        30.000 b1  decide   repeat: read 3952 bytes again, as psn 2
        30.000 b1  send     READ_RESPONSE_FIRST psn 2 bytes 1024 ack msn 1
        30.000 b1  send     READ_RESPONSE_MIDDLE psn 3 bytes 1024
        30.000 b1  send     READ_RESPONSE_MIDDLE psn 4 bytes 1024
        30.000 b1  send     READ_RESPONSE_LAST psn 5 bytes 880 ack msn 1
        40.000 a1  receive  READ_RESPONSE_FIRST psn 2 bytes 1024 ack msn 1
        40.000 a1  decide   done: psn 2 to 5
        40.000 a1  complete read wr 1 SUCCESS bytes 6000
        40.000 a1  receive  READ_RESPONSE_MIDDLE psn 3 bytes 1024 (drop_stale_ack)
        40.000 a1  receive  READ_RESPONSE_MIDDLE psn 4 bytes 1024 (drop_stale_ack)
        40.000 a1  receive  READ_RESPONSE_LAST psn 5 bytes 880 ack msn 1 (drop_stale_ack)
      1000.000 a1  memory   own at 0 is the peer's open at 0, all 6000 bytes

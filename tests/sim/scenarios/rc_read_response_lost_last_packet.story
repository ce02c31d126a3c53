# The last packet of a READ's answer is lost. Only that packet is asked for again, under
# its own PSN, and read from memory once more (9.7.5.1.5).

0us     b lose 3
0us     a post read 1 length 3000
5ms     a compare own 0 open 0 length 3000

expect
         0.000 a1  post     read 1 length 3000
         0.000 a1  send     READ_REQUEST psn 0 length 3000 ack?
        10.000 b1  receive  READ_REQUEST psn 0 length 3000 ack?
        10.000 b1  send     READ_RESPONSE_FIRST psn 0 bytes 1024 ack msn 1
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 1 bytes 1024
        10.000 b1  send     READ_RESPONSE_LAST psn 2 bytes 952 ack msn 1
        10.000 b   lost     READ_RESPONSE_LAST psn 2 bytes 952 ack msn 1
        20.000 a1  receive  READ_RESPONSE_FIRST psn 0 bytes 1024 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 1 bytes 1024
        20.000 a1  decide   done: psn 1
      2020.000 a1  deadline
      2020.000 a1  decide   probe: nothing came for a while, ask with psn 2 again
      2020.000 a1  send     READ_REQUEST psn 2 length 952 ack?
      2030.000 b1  receive  READ_REQUEST psn 2 length 952 ack?
      2030.000 b1  decide   repeat: read 952 bytes again, as psn 2
      2030.000 b1  send     READ_RESPONSE_ONLY psn 2 bytes 952 ack msn 1
      2040.000 a1  receive  READ_RESPONSE_ONLY psn 2 bytes 952 ack msn 1
      2040.000 a1  decide   done: psn 2
      2040.000 a1  complete read wr 1 SUCCESS bytes 3000
      5000.000 a1  memory   own at 0 is the peer's open at 0, all 3000 bytes

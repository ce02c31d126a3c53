# A READ of more than 64 KiB is asked for in pieces of 64 KiB. The PSNs of the answers follow
# each other over all pieces, and there is one completion.

mtu 4096

0us     a post read 1 length 70000
1ms     a compare own 0 open 0 length 70000

expect
         0.000 a1  post     read 1 length 70000
         0.000 a1  send     READ_REQUEST psn 0 length 65536 ack?
         0.000 a1  send     READ_REQUEST psn 16 length 4464 ack?
        10.000 b1  receive  READ_REQUEST psn 0 length 65536 ack?
        10.000 b1  send     READ_RESPONSE_FIRST psn 0 bytes 4096 ack msn 1
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 1 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 2 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 3 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 4 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 5 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 6 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 7 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 8 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 9 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 10 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 11 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 12 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 13 bytes 4096
        10.000 b1  send     READ_RESPONSE_MIDDLE psn 14 bytes 4096
        10.000 b1  send     READ_RESPONSE_LAST psn 15 bytes 4096 ack msn 1
        10.000 b1  receive  READ_REQUEST psn 16 length 4464 ack?
        10.000 b1  send     READ_RESPONSE_FIRST psn 16 bytes 4096 ack msn 2
        10.000 b1  send     READ_RESPONSE_LAST psn 17 bytes 368 ack msn 2
        20.000 a1  receive  READ_RESPONSE_FIRST psn 0 bytes 4096 ack msn 1
        20.000 a1  decide   done: psn 0
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 1 bytes 4096
        20.000 a1  decide   done: psn 1
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 2 bytes 4096
        20.000 a1  decide   done: psn 2
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 3 bytes 4096
        20.000 a1  decide   done: psn 3
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 4 bytes 4096
        20.000 a1  decide   done: psn 4
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 5 bytes 4096
        20.000 a1  decide   done: psn 5
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 6 bytes 4096
        20.000 a1  decide   done: psn 6
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 7 bytes 4096
        20.000 a1  decide   done: psn 7
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 8 bytes 4096
        20.000 a1  decide   done: psn 8
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 9 bytes 4096
        20.000 a1  decide   done: psn 9
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 10 bytes 4096
        20.000 a1  decide   done: psn 10
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 11 bytes 4096
        20.000 a1  decide   done: psn 11
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 12 bytes 4096
        20.000 a1  decide   done: psn 12
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 13 bytes 4096
        20.000 a1  decide   done: psn 13
        20.000 a1  receive  READ_RESPONSE_MIDDLE psn 14 bytes 4096
        20.000 a1  decide   done: psn 14
        20.000 a1  receive  READ_RESPONSE_LAST psn 15 bytes 4096 ack msn 1
        20.000 a1  decide   done: psn 15
        20.000 a1  receive  READ_RESPONSE_FIRST psn 16 bytes 4096 ack msn 2
        20.000 a1  decide   done: psn 16
        20.000 a1  receive  READ_RESPONSE_LAST psn 17 bytes 368 ack msn 2
        20.000 a1  decide   done: psn 17
        20.000 a1  complete read wr 1 SUCCESS bytes 70000
      1000.000 a1  memory   own at 0 is the peer's open at 0, all 70000 bytes

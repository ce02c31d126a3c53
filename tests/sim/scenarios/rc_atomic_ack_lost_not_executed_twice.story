# The answer of an atomic is lost. The repeat gets the saved result; the addition happens once
# (9.7.5.1.5: a duplicate atomic is never executed).

0us     b put open 0 5
0us     b lose 1
0us     a post add 1 value 3 remote 0
5ms     b show open 0
5ms     a show own 0

expect
         0.000 b1  memory   open at 0 is set to 5
         0.000 a1  post     add 1 value 3 remote 0
         0.000 a1  send     FETCH_ADD psn 0 ack?
        10.000 b1  receive  FETCH_ADD psn 0 ack?
        10.000 b1  send     ATOMIC_ACKNOWLEDGE psn 0 ack msn 1
        10.000 b   lost     ATOMIC_ACKNOWLEDGE psn 0 ack msn 1
      2000.000 a1  deadline
      2000.000 a1  decide   probe: nothing came for a while, ask with psn 0 again
      2000.000 a1  send     FETCH_ADD psn 0 ack?
      2010.000 b1  receive  FETCH_ADD psn 0 ack?
      2010.000 b1  decide   repeat of psn 0: answer with the saved result, do not execute
      2010.000 b1  send     ATOMIC_ACKNOWLEDGE psn 0 ack msn 1
      2020.000 a1  receive  ATOMIC_ACKNOWLEDGE psn 0 ack msn 1
      2020.000 a1  decide   done: psn 0
      2020.000 a1  complete atomic wr 1 SUCCESS
      5000.000 b1  memory   open at 0 is 8
      5000.000 a1  memory   own at 0 is 5

# Libraries of the distribution.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_library(PCAP_LIBRARY pcap REQUIRED)
find_path(VERBS_HEADERS infiniband/verbs.h REQUIRED)

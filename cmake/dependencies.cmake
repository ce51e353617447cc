# Every third-party library in one place, as an imported target. libs/<owner> links it; nothing else does.
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json url system)
find_package(Protobuf REQUIRED)
find_package(GTest REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CURL REQUIRED)
find_package(LibArchive REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pqxx REQUIRED IMPORTED_TARGET libpqxx libpq)
pkg_check_modules(rdkafka REQUIRED IMPORTED_TARGET rdkafka++)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(nftables REQUIRED IMPORTED_TARGET libnftables)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)

# For every file, whatever it links: those who share a precompiled header must agree on them.
add_compile_definitions(BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_CONTAINER_DYN_LINK
  BOOST_CONTAINER_NO_LIB BOOST_JSON_DYN_LINK BOOST_JSON_NO_LIB FMT_SHARED GTEST_HAS_PTHREAD=1)

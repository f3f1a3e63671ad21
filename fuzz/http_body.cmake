t9_fuzzer(http_body_fuzzer SOURCES http_body_fuzzer.cpp DEPS t9_server)
target_include_directories(http_body_fuzzer PRIVATE ${CMAKE_SOURCE_DIR}/tests)

t9_fuzzer(tools_fuzzer SOURCES tools_fuzzer.cpp DEPS t9_chat)

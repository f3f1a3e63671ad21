t9_fuzzer(template_fuzzer SOURCES template_fuzzer.cpp DEPS t9_chat)

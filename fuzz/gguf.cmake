t9_fuzzer(gguf_fuzzer SOURCES gguf_fuzzer.cpp DEPS t9_gguf)

t9_fuzzer(tokenizer_fuzzer SOURCES tokenizer_fuzzer.cpp DEPS t9_tokenizer)

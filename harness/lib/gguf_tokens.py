"""A copy of a small GGUF file in which some tokens have other texts and are control tokens: the golden models' vocabularies
have ordinary words where real ones have the tokens of images."""
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY, INT32, CONTROL = 8, 9, 5, 3


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += struct.calcsize(kind)
        return value

    def text(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            element = self.number("I")
            return element, [self.value(element) for _ in range(self.number("Q"))]
        return self.number(SCALARS[kind])


def text_bytes(text):
    return struct.pack("<Q", len(text)) + text


def value_bytes(kind, value):
    if kind == TEXT:
        return text_bytes(value)
    if kind == ARRAY:
        element, values = value
        return struct.pack("<IQ", element, len(values)) + b"".join(value_bytes(element, v) for v in values)
    return struct.pack("<" + SCALARS[kind], value)


def rename(source, target, names):
    """`names`: {token id: its new text}."""
    data = source.read_bytes()
    reader = Reader(data)
    reader.at = 8
    n_tensors, n_values = reader.number("Q"), reader.number("Q")
    out = data[:reader.at]
    alignment = 32
    for _ in range(n_values):
        key, kind = reader.text(), reader.number("I")
        value = reader.value(kind)
        if key == b"general.alignment":
            alignment = value
        for id, text in names.items():
            if key == b"tokenizer.ggml.tokens":
                value[1][id] = text.encode()
            if key == b"tokenizer.ggml.token_type":
                value[1][id] = CONTROL
        out += text_bytes(key) + struct.pack("<I", kind) + value_bytes(kind, value)
    begin = reader.at
    for _ in range(n_tensors):
        reader.text()
        n_dims = reader.number("I")
        reader.at += 8 * n_dims + 4 + 8
    out += data[begin:reader.at]
    tensors = -(-reader.at // alignment) * alignment
    target.write_bytes(out + b"\0" * (-len(out) % alignment) + data[tensors:])

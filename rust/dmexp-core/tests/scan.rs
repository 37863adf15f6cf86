//! The quick reader of headers. What it makes of each spelling is tested beside the general
//! reader, in Python; here, that it takes what our writer writes, and panics at nothing.

mod common;

use common::Random;
use dmexp_core::header::{Header, Metadata};
use dmexp_core::scan::scan;
use dmexp_core::{Dtype, document, header_crc};

const TOP: &str = "format = 1\ndtype = \"bf16\"\nsource = \"a \\\"b\\\"\"\nstep = 20\n\
    num_params = 7\nnum_tensors = 2\nflushed = 3\nmax_abs = 5.15625\n\
    min_nonzero_abs = 0.0000000011059455573558807\n";
const OURS: &str = "subnormal = 1\nwriter = \"dmexp 0.1.0\"\n";
const CONFIG: &str = "config = \"\"\"\nd_model = 8\nname = 'x'\n\"\"\"\n";
const TABLE: &str = "\n[[tensors]]\nname = \"norm.weight\"\ndims = [2, 3]\noverflowed = 0\n\
    \n[[tensors]]\nname = 'C:\\x'\ndims = [1]\noverflowed = 0\n";
const PAYLOAD: u64 = 14;

fn compat() -> String {
    format!("{TOP}{CONFIG}{TABLE}")
}

fn ours() -> String {
    let table = TABLE.replace("overflowed = 0\n", "overflowed = 0\ncrc32 = \"01234abc\"\n");
    let text =
        format!("{TOP}{OURS}{CONFIG}{table}\n[metadata]\nk = \"v\"\n\n[metadata.t]\nx = 1\n");
    let line = header_crc::line(text.as_bytes());
    format!("{text}{line}\n\n\n")
}

fn read(text: &str) -> Option<Header<'_>> {
    scan(text, PAYLOAD)
}

#[test]
fn the_first_writers_words() {
    let text = compat();
    let found = read(&text).unwrap();
    assert_eq!((found.format, found.dtype, found.step), (1, Dtype::Bf16, 20));
    assert_eq!((&*found.source, &*found.config), ("a \"b\"", "d_model = 8\nname = 'x'\n"));
    assert_eq!((found.num_params, found.num_tensors, found.flushed), (7, 2, 3));
    assert_eq!(found.max_abs.to_bits(), 5.15625_f64.to_bits());
    assert_eq!(found.min_nonzero_abs.to_bits(), 1.105_945_557_355_880_7e-9_f64.to_bits());
    assert!(found.subnormal.is_none() && found.writer.is_none() && found.metadata.is_none());
    assert!(found.extra.is_empty() && found.adds_up(PAYLOAD));
    let names: Vec<_> = found.index.entries().iter().map(|e| found.index.name(e)).collect();
    assert_eq!(names, ["norm.weight", "C:\\x"]);
    assert!(found.index.entries().iter().all(|entry| entry.crc32.is_none()));
}

#[test]
fn our_own_words() {
    let text = ours();
    let found = read(&text).unwrap();
    assert_eq!(found.subnormal, Some(1));
    assert_eq!(found.writer.as_deref(), Some("dmexp 0.1.0"));
    let Some(Metadata::Table(metadata)) = &found.metadata else { panic!("no metadata") };
    let keys: Vec<_> = metadata.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["k", "t"]);
    assert!(found.index.entries().iter().all(|entry| entry.crc32 == Some(0x0123_4abc)));
    let (stored, computed) = header_crc::check(text.as_bytes()).unwrap();
    assert_eq!(stored, computed);
}

#[test]
fn a_table_that_disagrees_with_the_payload_is_left_to_the_other_reader() {
    for payload in [0, 13, 15, u64::MAX] {
        assert!(scan(&compat(), payload).is_none());
    }
}

#[test]
fn a_header_cut_anywhere_is_never_read_as_a_whole_one() {
    for text in [compat(), ours()] {
        let body = text.trim_end_matches('\n').len();
        for end in 0..body {
            let found = scan(&text[..end], PAYLOAD);
            // What follows the table may be missing; the table itself may not.
            if let Some(found) = found {
                assert!(end >= text.rfind("[1]").unwrap());
                assert_eq!(found.index.len(), 2);
            }
        }
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut random = Random(9);
    let texts = [compat().into_bytes(), ours().into_bytes()];
    let mut read = 0;
    for nth in 0..200_000_usize {
        let mut bytes = texts[nth % 2].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len().max(1) as u64) as usize;
            if bytes.len() <= at {
                break;
            }
            match random.below(5) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next() as u8,
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, b"\"'\\\n\r\t 0[]#=.-_\x80\xc3"[random.below(17) as usize]),
                _ => bytes.truncate(at + 1),
            }
        }
        let payload = [PAYLOAD, 0, u64::MAX][random.below(3) as usize];
        let _ = header_crc::check(&bytes);
        let Some(text) = document::text(&bytes) else { continue };
        let found = scan(&text, payload);
        let other = document::read(&text, payload);
        for found in found.iter().chain(&other) {
            read += 1;
            let covered: u64 = found.index.entries().iter().map(|entry| entry.nbytes).sum();
            assert_eq!(covered, payload);
        }
        // Where both take it, they read the same.
        if let (Some(found), Some(other)) = (&found, &other) {
            assert_eq!((&found.source, &found.config), (&other.source, &other.config));
            assert_eq!(found.index.len(), other.index.len());
        }
    }
    assert!(read > 5000, "{read}");
}

#[test]
fn the_checksum_line_is_the_last_that_is_not_blank() {
    let text = "a = 1\n";
    let line = header_crc::line(text.as_bytes());
    assert_eq!(line, format!("# header-crc32 = \"{:08x}\"\n", dmexp_core::crc32::hash(b"a = 1\n")));
    assert_eq!(line.len(), header_crc::LINE_LEN);
    let whole = format!("{text}{line}");
    for blank in ["", "\n", "\r\n", " \t\n\n", "\n \n \n"] {
        let found = header_crc::check(format!("{whole}{blank}").as_bytes()).unwrap();
        assert_eq!(found.0, found.1);
        assert_eq!(header_crc::line_start(format!("{whole}{blank}").as_bytes()), Some(6));
    }
    for more in ["x", "# c\n", "\n.", "\u{a0}"] {
        assert_eq!(header_crc::check(format!("{whole}{more}").as_bytes()), None);
    }
    for other in [
        "",
        "\n",
        "a = 1",
        "# header-crc32 = \"\"",
        "# header-crc32 = \"0123456\"",
        "# header-crc32 = \"0123456g\"",
        "# header-crc32 = \"0123456A\"",
        " # header-crc32 = \"01234567\"",
    ] {
        assert_eq!(header_crc::check(other.as_bytes()), None, "{other:?}");
    }
    let edited = whole.replace("a = 1", "a = 2");
    let (stored, computed) = header_crc::check(edited.as_bytes()).unwrap();
    assert_ne!(stored, computed);
}

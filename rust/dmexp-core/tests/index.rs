//! The tensor table: where each tensor lies, and every number that is refused.

mod common;

use std::collections::HashMap;

use common::Random;
use dmexp_core::index::{Builder, Index, MAX_RANK, Refusal};

fn build(
    width: u64,
    payload: u64,
    tensors: &[(&str, &[u64], Option<u32>)],
) -> Result<Index, Refusal> {
    let mut builder = Builder::new(width, payload, 0);
    for (name, dims, crc32) in tensors {
        builder.push(name, dims, *crc32)?;
    }
    builder.finish()
}

/// What one tensor over `payload` bytes is refused for.
fn refusal(width: u64, payload: u64, name: &str, dims: &[u64]) -> Refusal {
    build(width, payload, &[(name, dims, None)]).expect_err("refused")
}

#[test]
fn tensors_lie_one_after_the_other() {
    let index = build(
        4,
        68,
        &[
            ("a", &[2, 3], Some(7)),
            ("scalar", &[], None),
            ("empty", &[5, 0, 3], Some(0)),
            ("größe", &[10, 1], Some(u32::MAX)),
        ],
    )
    .unwrap();
    let found: Vec<_> = index
        .entries()
        .iter()
        .map(|entry| (index.name(entry), index.dims(entry), entry.range(), entry.crc32))
        .collect();
    assert_eq!(
        found,
        [
            ("a", &[2, 3][..], 0..24, Some(7)),
            ("scalar", &[][..], 24..28, None),
            ("empty", &[5, 0, 3][..], 28..28, Some(0)),
            ("größe", &[10, 1][..], 28..68, Some(u32::MAX)),
        ]
    );
    assert_eq!((index.len(), index.is_empty()), (4, false));
    assert_eq!(index.position("empty"), Some(2));
    assert_eq!(index.position("groesse"), None);
}

#[test]
fn no_tensors_cover_no_payload() {
    let index = build(2, 0, &[]).unwrap();
    assert_eq!((index.len(), index.is_empty(), index.position("")), (0, true, None));
    assert_eq!(build(2, 1, &[]).unwrap_err(), Refusal::Uncovered { covered: 0, payload: 1 });
}

#[test]
fn payload_too_short_and_too_long() {
    assert_eq!(
        refusal(4, 23, "w", &[2, 3]),
        Refusal::BeyondPayload {
            name: "w".into(),
            dims: vec![2, 3],
            start: 0,
            end: 24,
            payload: 23,
        }
    );
    assert_eq!(refusal(4, 25, "w", &[2, 3]), Refusal::Uncovered { covered: 24, payload: 25 });
    let second = build(2, 10, &[("a", &[4], None), ("b", &[2], None)]).unwrap_err();
    assert!(matches!(second, Refusal::BeyondPayload { start: 8, end: 12, payload: 10, .. }));
}

#[test]
fn names() {
    assert_eq!(refusal(4, 0, "", &[0]), Refusal::EmptyName { position: 0 });
    let twice = build(4, 0, &[("a", &[0], None), ("b", &[0], None), ("a", &[0], None)]);
    assert_eq!(twice.unwrap_err(), Refusal::DuplicateName { name: "a".into() });
    for control in ["\0", "a\n", "\t", "\u{1b}[0m", "\u{7f}", "é\u{80}", "\u{9f}x"] {
        let expected = Refusal::ControlCharacter { position: 0, name: control.into() };
        assert_eq!(refusal(4, 0, control, &[0]), expected);
    }
    for fine in [" ", "\u{a0}", "\u{ad}", "\u{2028}", "\u{feff}", "🙂", "\"\\'#[]"] {
        assert!(build(4, 0, &[(fine, &[0], None)]).is_ok(), "{fine:?}");
    }
}

#[test]
fn ranks() {
    assert!(build(4, 4, &[("w", &[1; MAX_RANK], None)]).is_ok());
    for rank in [MAX_RANK + 1, 10_000] {
        let expected = Refusal::Rank { name: "w".into(), rank };
        assert_eq!(refusal(4, 4, "w", &vec![1; rank]), expected);
        assert_eq!(refusal(4, 0, "w", &vec![0; rank]), expected);
    }
}

#[test]
fn products_and_sums_beyond_64_bits() {
    let beyond: &[&[u64]] = &[
        &[u64::MAX],
        &[1 << 63],
        &[1 << 62],
        &[1 << 61],
        &[1 << 32, 1 << 32],
        &[1 << 21, 1 << 21, 1 << 21],
        &[3, u64::MAX / 3],
        &[u64::MAX, 2],
        // The product wraps to zero, and to one.
        &[1 << 32, 1 << 32, 1 << 32],
        &[0x1_0000_0001, 0xffff_ffff_0000_0001],
        // A zero excuses none of the others, wherever it stands.
        &[0, u64::MAX],
        &[u64::MAX, 0],
        &[1 << 40, 0, 1 << 40],
    ];
    for width in [2, 4] {
        for dims in beyond {
            for payload in [0, 4, u64::MAX] {
                let expected = Refusal::Overflow { name: "w".into(), dims: dims.to_vec() };
                assert_eq!(refusal(width, payload, "w", dims), expected);
            }
        }
    }
    // The last that any reader could widen to f32.
    let most = (1 << 61) - 1;
    assert!(matches!(refusal(2, 0, "w", &[most]), Refusal::BeyondPayload { .. }));
    assert!(build(2, 0, &[("w", &[0, most], None)]).is_ok());
    assert!(build(2, most * 2, &[("w", &[most], None)]).is_ok());
}

#[test]
fn sums_beyond_64_bits() {
    // Each tensor fits 64 bits; the third ends beyond the signed ones.
    let large: &[u64] = &[(1 << 60) - 1];
    let payload = u64::MAX;
    let three = build(4, payload, &[("a", large, None), ("b", large, None), ("c", large, None)]);
    assert_eq!(three.unwrap_err(), Refusal::Overflow { name: "c".into(), dims: large.to_vec() });
}

#[test]
fn messages_are_short_and_facts_whole() {
    let name = "ü".repeat(100_000);
    let refused = refusal(4, 4, &name, &[u64::MAX]);
    assert!(refused.to_string().len() < 600);
    assert!(matches!(refused, Refusal::Overflow { name: whole, .. } if whole == name));
    let rank = refusal(4, 4, &name, &vec![1; 1000]).to_string();
    assert!(rank.contains("1000 dims") && rank.len() < 600);
}

#[test]
fn every_name_is_found_among_many() {
    let mut random = Random(5);
    let mut builder = Builder::new(4, 0, 5);
    let mut places = HashMap::new();
    for place in 0..20_000_usize {
        // Some share all but their last letters, some are long, some are a letter.
        let name = match random.below(3) {
            0 => format!("model.layers.{place}.weight"),
            1 => format!("h{place:x}"),
            _ => format!("{}{place}", "x".repeat(random.below(50) as usize)),
        };
        builder.push(&name, &[0], None).unwrap();
        places.insert(name, places.len());
    }
    let index = builder.finish().unwrap();
    assert_eq!(index.len(), places.len());
    for (name, place) in &places {
        assert_eq!(index.position(name), Some(*place));
        assert_eq!(index.name(&index.entries()[*place]), name);
    }
    for absent in ["", "y", "model.layers.20001.weight"] {
        assert_eq!(index.position(absent), None);
    }
}

#[test]
fn random_tables_agree_with_arithmetic_in_128_bits() {
    let mut random = Random(6);
    let sides = [0, 1, 2, 3, 1 << 16, 1 << 31, 1 << 32, (1 << 61) - 1, 1 << 61, 1 << 63, u64::MAX];
    let mut outcomes = [0_u32; 3];
    for _ in 0..200_000 {
        let width = [2, 4][random.below(2) as usize];
        let payload = [0, 12, 1 << 20, 1 << 62, u64::MAX][random.below(5) as usize];
        let rank = random.below(5) as usize;
        let dims: Vec<u64> =
            (0..rank).map(|_| sides[random.below(sides.len() as u64) as usize]).collect();
        let product = |skip_zero: bool| {
            dims.iter()
                .filter(|&&dim| dim != 0 || !skip_zero)
                .try_fold(1_u128, |product, &dim| product.checked_mul(dim.into()))
        };
        let fits = |count: Option<u128>| count.is_some_and(|n| n <= i64::MAX as u128 / 4);
        let found = build(width, payload, &[("w", &dims, None)]);
        if !fits(product(true)) {
            outcomes[0] += 1;
            assert!(matches!(found, Err(Refusal::Overflow { .. })), "{dims:?}");
            continue;
        }
        let nbytes = product(false).unwrap() * u128::from(width);
        outcomes[1 + usize::from(nbytes == u128::from(payload))] += 1;
        match found {
            Ok(index) => {
                assert_eq!(nbytes, u128::from(payload));
                assert_eq!(u128::from(index.entries()[0].nbytes), nbytes);
            }
            Err(Refusal::BeyondPayload { end, .. }) => {
                assert_eq!(u128::from(end), nbytes);
                assert!(nbytes > u128::from(payload));
            }
            Err(Refusal::Uncovered { covered, .. }) => {
                assert_eq!(u128::from(covered), nbytes);
                assert!(nbytes < u128::from(payload));
            }
            Err(other) => panic!("{other} for {dims:?}"),
        }
    }
    assert!(outcomes.iter().all(|&count| count > 1000), "{outcomes:?}");
}

//! Wildcards in names of included files, and in names of pools and endpoints that a command line names.

/// True if the pattern, in which `*` stands for any characters and `?` for a single character, is the whole name. Takes
/// at most the product of both lengths in steps.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // Both where the latest `*` was met; it takes another character each time that the rest does not fit.
    let mut star = None;
    loop {
        let before = name.clone();
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                name = before.clone();
                star = Some((pattern.clone(), before));
            }
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(one)) if wanted == one => {}
            _ => {
                let Some((after_star, taken)) = &mut star else { return false };
                if taken.next().is_none() {
                    return false;
                }
                pattern = after_star.clone();
                name = taken.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_whole_name() {
        for (pattern, name, fits) in [
            ("shop-*", "shop-1", true),
            ("shop-*", "shop-", true),
            ("shop-*", "a-shop-1", false),
            ("*-a-*b", "x-a-y-ab", true),
            ("*-a-*b", "x-a-y-ac", false),
            ("shop-?", "shop-\u{e9}", true),
            ("shop-?", "shop-", false),
            ("shop", "shop-1", false),
            ("shop-1", "shop", false),
            ("*", "", true),
            ("**", "a", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "ba", false),
            ("*.toml", "a.toml.toml", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!matches(&"*a".repeat(60), &"a".repeat(59)));
        assert!(!matches(&("*a".repeat(30) + "b"), &"a".repeat(1000)));
    }
}

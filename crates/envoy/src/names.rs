//! Names of listeners, routes and pools, made of the names that a control plane gives. See [`of`].

use evenkeel_balance::endpoint::stable_hash;

/// Longest name of a listener or a pool, and of a route, in characters.
const NAME_MAX: usize = 64;
const LABEL_MAX: usize = 128;

/// Name of a listener or a pool: the name itself if the plan can have it. Otherwise other characters become `-`, and a
/// hash at the end keeps similar names apart.
pub fn of(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(fits) {
        return name.to_owned();
    }
    let plain = name.chars().map(|c| if fits(c) { c } else { '-' });
    hashed(plain, name, NAME_MAX)
}

/// Name of a route: at most 128 visible characters.
pub fn label(name: &str) -> String {
    let is_shown = |c: char| !c.is_control() && !c.is_whitespace() && c.is_ascii();
    if name.len() <= LABEL_MAX && name.chars().all(is_shown) {
        return name.to_owned();
    }
    hashed(name.chars().map(|c| if is_shown(c) { c } else { '-' }), name, LABEL_MAX)
}

fn hashed(plain: impl Iterator<Item = char>, name: &str, most: usize) -> String {
    let hash = format!("-{:016x}", stable_hash(name.as_bytes()));
    let begin: String = plain.take(most - hash.len()).collect();
    begin + &hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_plan_can_have_stay_and_others_keep_their_beginning() {
        assert_eq!(of("web.v1_a-b"), "web.v1_a-b");
        let long = of("outbound|80||reviews.default.svc.cluster.local");
        assert!(
            long.starts_with("outbound-80--reviews.default.svc.cluster.local-") && long.len() <= NAME_MAX,
            "{long}"
        );
        assert_ne!(of("a|b"), of("a/b"));
        assert!(of("").len() == 17 && of(&"x".repeat(1000)).len() == NAME_MAX);
        assert_eq!(label("main/web/0"), "main/web/0");
        assert!(label(&"x y".repeat(100)).len() == LABEL_MAX);
    }
}

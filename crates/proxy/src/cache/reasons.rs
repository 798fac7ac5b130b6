//! Reasons for which responses are not stored, by the rules or by this proxy.

use evenkeel_cache::refusal::Refusal;

/// Label in metrics and short text of a reason for which responses are not stored.
pub type Reason = (&'static str, &'static str);

pub const PART: Reason = ("part", "part of what is not stored");
pub const WHOLE: Reason = ("part_of_fetched", "part, the whole is fetched behind it");
pub const NO_RESPONSE: Reason = ("no_response", "the endpoint gave no response");

/// Reasons that this proxy adds to the rules.
pub const FURTHER: [Reason; 3] = [PART, WHOLE, NO_RESPONSE];

/// Number of [`reasons`].
pub const REASONS: usize = Refusal::ALL.len() + FURTHER.len();

/// Reasons for which responses are not stored, in the order of [`super::counts::CacheCounts::refused`]. Each such response counts for one
/// of them.
pub fn reasons() -> [Reason; REASONS] {
    let further = |at: usize| FURTHER[at - Refusal::ALL.len()];
    std::array::from_fn(|at| Refusal::ALL.get(at).map_or_else(|| further(at), |known| (known.label(), known.text())))
}

//! Reasons why a request was not answered. See [`Fault`].

/// Error in words for operators.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Error with its causes, which those of hyper leave out.
pub(crate) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

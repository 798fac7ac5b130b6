//! What does a page show as a picture?

/// A plot with its title: values with their intervals.
pub struct Plot {
    /// What is compared.
    pub title: String,
    /// SVG.
    pub svg: String,
}

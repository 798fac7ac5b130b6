//! How are results shown? As text, or as a page.

pub mod html;
pub mod table;

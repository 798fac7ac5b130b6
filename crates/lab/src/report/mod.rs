//! How do results reach people? As text, or as a page.

pub mod html;
pub mod table;

//! Values of fields that caching depends on: lists, dates, entity tags, cache directives and structured dictionaries.
//! Each reader accepts any bytes and allocates only for field names that a directive lists.

// Order: directives, entity_tag, structured, list, date
pub mod date;
pub mod directives;
pub mod entity_tag;
pub mod list;
pub mod structured;

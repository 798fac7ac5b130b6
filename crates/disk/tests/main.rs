//! Tests of the tier with real files: a model beside it, and files that are cut, broken, locked or full.

mod admission;
mod files;
mod model;
mod support;

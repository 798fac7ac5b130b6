//! What can evenkeel be asked to do? Each subcommand has a file.

pub mod algorithms;
pub mod check;
pub mod client;
pub mod completing;
pub mod configure;
pub mod demo;
pub mod explain;
pub mod manual;
pub mod reference;
pub mod replay;
pub mod run;
pub mod running;
pub mod sim;
pub mod status;
pub mod steer;
pub mod tap;
pub mod top;

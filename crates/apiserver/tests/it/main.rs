//! The server through its front door: real requests, the real store, no sockets.

mod crud;
mod harness;

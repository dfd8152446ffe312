//! The server through its front door: real requests, the real store, no sockets.

mod access;
mod admission;
mod apply;
mod bad_input;
mod clients;
mod columns;
mod computed;
mod costly;
mod crud;
mod custom;
mod expressions;
mod fresh;
mod harness;
mod hostile;
mod limits;
mod lists;
mod meetings;
mod protobuf;
mod revisions;
mod rules;
mod shapes;
mod unread;
mod watches;
mod words;

//! One msgpack message.

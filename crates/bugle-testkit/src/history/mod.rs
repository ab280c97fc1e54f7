//! What clients and workers saw, event by event.

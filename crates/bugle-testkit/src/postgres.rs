//! One PostgreSQL server for a whole test run, a schema for each test, and controls for faults.

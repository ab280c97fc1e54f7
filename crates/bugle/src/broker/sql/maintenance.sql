-- Are pushes, are pops refused for a while?
SELECT push_maintenance AS push, pop_maintenance AS pop FROM bugle.meta;

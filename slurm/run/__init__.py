"""Running a study, here or on a cluster: what is left to do, doing it, going on, reporting."""

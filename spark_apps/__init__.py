"""The apps of the project, one a file. Records of their topics are in `records`, shared operators in `operators`."""

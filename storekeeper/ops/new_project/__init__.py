"""Makes a project with an app, and further apps in it: what is written runs as it is, and is tested."""

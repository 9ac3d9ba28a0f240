"""App `template_app`: what each key has added up to."""

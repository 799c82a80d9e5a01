"""Unpacks archives safely: nothing is written outside of the folder, nor through a link."""

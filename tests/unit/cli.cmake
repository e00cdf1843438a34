# Output of the verbs, and their messages for invalid arguments, files and numbers.
shoal_add_pytest(unit.cli.pages FILE unit/test_cli_pages.py LABELS unit noasan TIMEOUT 300)
# An installation, from the tree itself to its modulefile.
shoal_add_pytest(unit.install FILE unit/test_install.py LABELS unit noasan TIMEOUT 300)
shoal_add_pytest(unit.cli.topo FILE unit/test_cli_topo.py LABELS unit noasan TIMEOUT 60)
shoal_add_pytest(unit.cli.refusals FILE unit/test_cli_refusals.py LABELS unit noasan TIMEOUT 120)
shoal_add_pytest(unit.cli.numbers FILE unit/test_cli_numbers.py LABELS unit noasan TIMEOUT 120)
shoal_add_pytest(unit.cli.import FILE unit/test_cli_import.py LABELS unit noasan TIMEOUT 300)
shoal_add_pytest(unit.cli.arrays FILE unit/test_cli_arrays.py LABELS unit noasan TIMEOUT 300)
shoal_add_pytest(unit.cli.images FILE unit/test_cli_images.py LABELS unit noasan TIMEOUT 300)
shoal_add_pytest(unit.cli.mutated FILE unit/test_cli_mutated.py LABELS unit noasan TIMEOUT 600)
shoal_add_pytest(unit.cli.json FILE unit/test_cli_json.py LABELS unit noasan TIMEOUT 120)
shoal_add_pytest(unit.cli.watch FILE unit/test_cli_watch.py LABELS unit noasan TIMEOUT 120)
shoal_add_pytest(unit.cli.scale FILE unit/test_cli_scale.py LABELS unit noasan TIMEOUT 120)

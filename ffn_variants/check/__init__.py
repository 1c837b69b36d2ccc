"""What every variant must do, as checks that say in one sentence what is wrong; the tests run them too."""
